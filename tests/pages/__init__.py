"""What the pages of docs/ show that is made of the code: pictures, and the list of rooms."""
