/* Empty tasks a second in an OpenCL for CPUs (PoCL): native kernels, and markers, on one in-order queue.
 * The better of the two counts for stream.launch. */
#define CL_TARGET_OPENCL_VERSION 120
#include "launch_rounds.h"
#include <CL/cl.h>

static cl_command_queue queue;

static void cl_ok(cl_int code, const char *what)
{
    if (code != CL_SUCCESS) {
        fprintf(stderr, "%s: OpenCL error %d\n", what, code);
        exit(1);
    }
}

static void CL_CALLBACK nothing(void *args) {}

static void run_native(int tasks)
{
    int unused = 0;
    for (int i = 0; i < tasks; i++)
        cl_ok(clEnqueueNativeKernel(queue, nothing, &unused, sizeof unused, 0, NULL,
                                    NULL, 0, NULL, NULL),
              "clEnqueueNativeKernel");
    cl_ok(clFinish(queue), "clFinish");
}

static void run_marker(int tasks)
{
    for (int i = 0; i < tasks; i++)
        cl_ok(clEnqueueMarkerWithWaitList(queue, 0, NULL, NULL),
              "clEnqueueMarkerWithWaitList");
    cl_ok(clFinish(queue), "clFinish");
}

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    cl_ok(clGetPlatformIDs(1, &platform, NULL), "no OpenCL platform");
    cl_ok(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, NULL),
          "no OpenCL device for CPUs");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_ok(code, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &code);
    cl_ok(code, "clCreateCommandQueue");
    launch_measure("pocl native kernel", run_native, 20000);
    launch_measure("pocl marker", run_marker, 20000);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
