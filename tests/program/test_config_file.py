"""--config: a file that cannot be used ends with 2 and names file and place."""
import json

import program_kit
from program_kit import TINY, command, run

WHOLE = {key: value for key, value in TINY.items() if key != "steps"}


class ConfigFile(program_kit.Case):
    def refused(self, contents, *named):
        path = self.write("config.json", contents)
        self.check(run(command("train", config=path, out=self.out)), 2, path, *named)
        self.assertFalse(self.out.exists())

    def test_bad_json_is_refused_with_line_and_column(self):
        self.refused('{"steps": 3,\n "ep": }', "line 2", "column")
        self.refused("", "line 1")
        self.refused('{"steps": 3', "line 1")
        self.refused(b"\xff\xfe{}", "line 1")
        self.refused("[" * 100000, "line 1")

    def test_what_is_no_object_is_refused(self):
        for text in ("[]", "3", "null", '"steps"'):
            with self.subTest(text=text):
                self.refused(text)

    def test_an_unknown_key_is_answered_with_the_nearest(self):
        self.refused('{"stepz": 3}', "'stepz'", "'steps'")

    def test_a_key_given_twice_is_refused(self):
        self.refused('{"steps": 3, "steps": 4}', "steps")

    def test_a_wrong_type_is_named(self):
        for value in ('"many"', "[3]", "{}", "null", "true", "3.5"):
            with self.subTest(value=value):
                self.refused('{"steps": %s}' % value, "steps")
        self.refused('{"overlap": 1}', "overlap")
        self.refused('{"data": 7}', "data")

    def test_a_value_out_of_range_names_the_nearest_valid_one(self):
        self.refused('{"steps": 0}', "steps", "is 1")
        self.refused('{"width": 99999999999999999999}')

    def test_a_missing_file_is_named(self):
        path = self.folder / "nowhere.json"
        self.check(run(command("train", config=path)), 2, path, "No such file")

    def test_a_folder_is_refused(self):
        self.check(run(command("train", config=self.folder)), 2, self.folder)

    def test_the_command_line_wins(self):
        path = self.write("config.json", json.dumps({**WHOLE, "steps": 5, "overlap": False}))
        ended = self.done(command("train", config=path, steps=1, out=self.out))
        self.assertIn("1 steps", ended.out)
        self.assertIn("overlap off", ended.out)


if __name__ == "__main__":
    program_kit.main()
