hr_test(unit.reduce SOURCES group/test_reduce.c ROOMS group)
hr_test(unit.meeting SOURCES group/test_meeting.c ROOMS group LABELS tsan)
hr_test(unit.local_run SOURCES group/test_local_run.c ROOMS group LABELS tsan)
hr_test(unit.local_link SOURCES group/test_local_link.c ROOMS group LABELS tsan)
