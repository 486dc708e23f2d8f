"""TVMScript: the text face of both levels. Printer, parser, and the namespaces I, R, T."""
