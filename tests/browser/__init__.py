"""Tests in a real browser: pages in Chromium, notebooks in a real JupyterLab."""
