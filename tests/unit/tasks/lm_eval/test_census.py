"""The census of task files (`tools.lm_eval_files`) on a folder of four files."""

from pathlib import Path

import pytest
from tools.lm_eval_files import END, START, Census, written

FILES = {
    "base": "dataset_path: quiz\ntest_split: test\noutput_type: multiple_choice\n",
    "plain.yaml": 'include: base\ntask: plain\ndoc_to_text: "{{q.strip()}}"\n'
    "doc_to_choice: \"{{options}}\"\ndoc_to_target: \"{{['x', 'y'].index(key)}}\"\n",
    "code.yaml": "include: base\ntask: code\nprocess_docs: !function utils.only_law\n"
    'doc_to_text: "{{q}}"\ndoc_to_choice: [a, b]\ndoc_to_target: label\n',
    "picture.yaml": "include: base\ntask: picture\ndoc_to_image: image\n"
    'doc_to_text: "{{q}}"\ndoc_to_choice: [a, b]\ndoc_to_target: label\n',
    "group.yaml": "group: all\ntask: [plain, code]\n",
    "utils.py": "def only_law(data):\n    return data.filter(lambda d: d['field'] == 'law')\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def census(folder: Path, *, allow_code: bool) -> Census:
    made = Census(folder, allow_code=allow_code, every=1, verbose=False)
    made.run()
    return made


def test_counts_with_code(folder: Path) -> None:
    found = census(folder, allow_code=True)
    assert found.counts == {"task": 3, "group": 1, "loaded": 2, "built": 2}
    assert found.refused == {"images or audio": [folder / "picture.yaml"]}
    assert found.worker_seconds() > 0


def test_counts_without_code(folder: Path) -> None:
    found = census(folder, allow_code=False)
    assert found.counts == {"task": 3, "group": 1, "loaded": 1, "built": 1}
    (needs, _) = found.refused
    assert needs == "Python functions, which need `--allow-code`"
    assert next(found.lines()).startswith("Of 3 task files, 1 load (33.3%)")


def test_the_page_keeps_its_other_text(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{START}old\n{END}\nafter\n", "utf-8")
    written(page, ["new\n"])
    assert page.read_text("utf-8") == f"before\n{START}new\n{END}\nafter\n"
