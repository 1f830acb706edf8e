"""Being here, it puts this folder on the path: tests in folders below find `scripted_pair` too."""
