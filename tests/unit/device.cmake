foreach(noun stream event device_fail memory_pool team device_spans stream_check random_programs)
  hr_test(unit.${noun} SOURCES device/test_${noun}.c ROOMS device LABELS tsan)
endforeach()
hr_test(unit.cpu_order SOURCES device/test_cpu_order.c ROOMS device)
