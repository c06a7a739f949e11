"""The released student as files: ONNX, its description, and the loader that a release brings along."""

from ostrakon.export.student_files import export_student, load_student

__all__ = ["export_student", "load_student"]
