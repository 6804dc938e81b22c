# cmake -DNVCC=... -DSOURCE=... -DOUT=...: compiles a CUDA program for the GPU suite. Where nvcc cannot (it wants another
# host compiler, say) the build goes on without it: the suite compiles it where it runs, or says why not.
execute_process(
  COMMAND ${NVCC} -std=c++17 -cudart shared -O1 -lineinfo -gencode arch=compute_80,code=[sm_80,compute_80]
          -gencode arch=compute_90,code=sm_90 -o ${OUT} ${SOURCE}
  RESULT_VARIABLE failed ERROR_VARIABLE message OUTPUT_QUIET)
if(failed)
  file(REMOVE ${OUT})
  message("${OUT} is left out: ${message}")
endif()
