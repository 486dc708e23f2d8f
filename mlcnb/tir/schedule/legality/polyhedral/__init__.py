"""The exact side of legality: loop programs as sets of integer points, decided by isl.

    writing    index expressions as isl text; what is not affine is said so
    program    statements: where each runs, when, what it writes and reads
    flow       which write each read sees (Feautrier's array dataflow)
    terms      reductions as bags of terms, whose order does not count
    equal      do two programs compute the same from the same inputs?
    carried    does a loop carry a dependence?
    effort     a bound on the work, so that a question always ends

islpy is loaded on the first question, never by `import mlcnb`.
"""
