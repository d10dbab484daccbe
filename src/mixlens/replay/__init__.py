"""Running a recorded layer again: with edits, from the attention output on, or as a linear map."""
