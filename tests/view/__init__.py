"""Tests of what cells show: text, HTML, pictures, with names that mean harm."""
