"""The deployment guide's installs, carried out: on a machine with systemd and in an image."""
