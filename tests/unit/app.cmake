# What surrounds the model in the program; the model and its training are tested in tests/train.
hr_test(unit.options SOURCES app/test_options.c ROOMS base trace LIBS hr_app)
foreach(name config data safetensors checkpoint progress pictures)
  hr_test(unit.${name} SOURCES app/test_${name}.c app/scratch.c ROOMS base trace LIBS hr_app)
endforeach()
