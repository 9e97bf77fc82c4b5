"""The study as a Jupyter notebook that runs from top to bottom."""

from typing import TYPE_CHECKING

from headwise.errors import missing_extra
from headwise.study.worked import INTRODUCTION, TITLE, after, before, setting_line

if TYPE_CHECKING:
    from headwise.study.run import Study


def written(study: "Study") -> str:
    """Return the notebook as JSON."""
    try:
        from nbformat import v4, validate, writes  # noqa: PLC0415
    except ImportError:
        raise missing_extra("write", "nbformat", "study") from None
    cells = [v4.new_markdown_cell(f"# {TITLE}\n\n{INTRODUCTION} {setting_line(study)}")]
    for part in study.parts:
        name = f'"{part.name}"'
        options = "".join(f", {key}={value!r}" for key, value in study.setting.changed().items())
        cells += [
            v4.new_markdown_cell(before(part)),
            v4.new_code_cell(f"import headwise as hw\npart = hw.study.run(parts=[{name}]{options}).parts[0]\npart"),
            v4.new_markdown_cell(after(part)),
            v4.new_code_cell(part.code),
        ]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    book = v4.new_notebook(cells=cells, metadata=metadata)
    # Cell names that do not change from run to run.
    for place, cell in enumerate(book.cells):
        cell["id"] = f"cell-{place}"
    validate(book)
    return writes(book)
