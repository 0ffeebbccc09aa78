hr_test(unit.pool SOURCES tensor/test_pool.c ROOMS tensor LABELS tsan)
hr_test(unit.storage SOURCES tensor/test_storage.c ROOMS tensor LABELS tsan)
hr_test(unit.tensor SOURCES tensor/test_tensor.c ROOMS tensor)
hr_test(unit.view SOURCES tensor/test_view.c ROOMS tensor)
hr_test(unit.contents SOURCES tensor/test_contents.c ROOMS tensor LABELS tsan)
hr_test(unit.dlpack SOURCES tensor/test_dlpack.c tensor/dlpack_theirs.c ROOMS tensor LABELS tsan)
# Beside NumPy and PyTorch, where they are: the distribution's are for its own interpreter. Not under
# sanitizers, which an interpreter cannot load.
if(NOT HEADRACE_SANITIZE)
  find_program(HEADRACE_SYSTEM_PYTHON3 python3 HINTS /usr/bin REQUIRED)
  add_test(NAME unit.dlpack_peers COMMAND ${HEADRACE_SYSTEM_PYTHON3}
    ${CMAKE_CURRENT_SOURCE_DIR}/tensor/dlpack_peers.py $<TARGET_FILE:headrace_shared>)
  set_tests_properties(unit.dlpack_peers PROPERTIES TIMEOUT 60 SKIP_RETURN_CODE 77 LABELS streams
    ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
