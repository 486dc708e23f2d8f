"""Programs and steps on which our schedules are compared with Apache TVM's: see items.py."""
