"""The stages of a compile, their options, and what LLVM was asked for and did not do."""
