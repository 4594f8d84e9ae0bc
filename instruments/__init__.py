"""The stock instruments: one file each; :mod:`.stock` lists them."""
