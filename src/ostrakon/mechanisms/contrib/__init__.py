"""Rarely used mechanisms, one file each; `ostrakon.mechanisms` imports every module here, which registers its class."""
