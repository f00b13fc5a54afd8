"""Settings of Sphinx; their names are Sphinx's."""

import nvbackend

project = "nvbackend"
version = release = nvbackend.__version__
extensions = ["myst_parser"]
myst_heading_anchors = 4
"""As GitHub does: the pages are read there too."""
html_theme = "furo"
html_title = f"nvbackend {release}"
html_copy_source = False
html_show_copyright = False
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "monokai"
