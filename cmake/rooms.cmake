# hr_room(NAME SOURCES ... SEES rooms... LIBS libs...): one folder of src/ as an object library.
# hr_test(NAME SOURCES ... ROOMS rooms... LIBS ... [LABELS ...] [TIMEOUT s]): one cmocka program
# that links those rooms and all that they see, so that a broken room breaks only its users.
# Label `tsan`: also run under ThreadSanitizer. Label `streams`, which those of rooms with devices have: also run
# under the stream checker.
# hr_waits(queue tests...): tests that keep no core busy. hr_long(tests...): those that keep one busy for long.
add_library(hr_options INTERFACE)
target_compile_options(hr_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wpointer-arith -Wcast-qual -Wwrite-strings -Wno-unused-parameter -Wvla
  -fvisibility=hidden -fno-math-errno)
target_compile_definitions(hr_options INTERFACE _GNU_SOURCE $<$<CONFIG:Debug>:HR_DEBUG=1>)
target_include_directories(hr_options INTERFACE ${PROJECT_SOURCE_DIR}/include)
if(HEADRACE_WERROR)
  target_compile_options(hr_options INTERFACE -Werror)
endif()
if(HEADRACE_SANITIZE)
  target_compile_options(hr_options INTERFACE -fsanitize=${HEADRACE_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(hr_options INTERFACE -fsanitize=${HEADRACE_SANITIZE})
endif()

function(hr_room name)
  cmake_parse_arguments(R "" "" "SOURCES;SEES;LIBS" ${ARGN})
  add_library(hr_${name} OBJECT ${R_SOURCES})
  target_link_libraries(hr_${name} PUBLIC hr_options Threads::Threads ${R_LIBS})
  target_include_directories(hr_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  set_property(GLOBAL PROPERTY HR_ROOM_SEES_${name} "${R_SEES}")
  set_property(GLOBAL APPEND PROPERTY HR_ROOMS ${name})
  set_property(GLOBAL APPEND PROPERTY HR_LIBS ${R_LIBS})
endfunction()

# All rooms that `rooms` reach, themselves included, into `out`.
function(hr_room_closure out)
  set(todo ${ARGN})
  set(done "")
  while(todo)
    list(POP_FRONT todo room)
    if(NOT room IN_LIST done)
      list(APPEND done ${room})
      get_property(sees GLOBAL PROPERTY HR_ROOM_SEES_${room})
      list(APPEND todo ${sees})
    endif()
  endwhile()
  set(${out} ${done} PARENT_SCOPE)
endfunction()

function(hr_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;ROOMS;LIBS;LABELS" ${ARGN})
  string(REPLACE "." "_" target test_${name})
  add_executable(${target} ${T_SOURCES})
  hr_room_closure(rooms ${T_ROOMS})
  if("device" IN_LIST rooms)
    list(APPEND T_LABELS streams)
  endif()
  list(TRANSFORM rooms PREPEND hr_)
  target_link_libraries(${target} PRIVATE ${rooms} ${T_LIBS} cmocka m)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${name} COMMAND ${target} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77
    LABELS "${T_LABELS}")
  if("tsan" IN_LIST T_LABELS)
    set_property(GLOBAL APPEND PROPERTY HR_TSAN_TARGETS ${target})
  endif()
endfunction()

# hr_waits(queue tests...): long ones that mostly wait, be it for a time limit or for mpirun. They come first, and of a
# queue one at a time, so that those which keep the cores busy run beside them.
function(hr_waits queue)
  set_tests_properties(${ARGN} PROPERTIES RESOURCE_LOCK waits_${queue} COST 1000)
endfunction()
# hr_long(tests...): they come next, so that at the end no core waits for the last of them.
function(hr_long)
  set_tests_properties(${ARGN} PROPERTIES COST 100)
endfunction()
