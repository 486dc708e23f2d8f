"""The calls of tutorials written for Apache TVM 0.21, in their order, on programs of our own.

Nothing is changed in how they call but `import mlcnb as tvm`. Programs, shapes and words are our
own; what needs a GPU, a download or an API that TVM has removed is left out.
"""
