/* NVTX 3 is headers alone: a tool that wants to listen is found by them, at the first call. */
#include "trace/nvtx.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static nvtxDomainHandle_t domain; /* once; NULL: nobody listens */

static void make_domain(void)
{
    domain = nvtxDomainCreateA("headrace");
}

void hr__nvtx_push(const char *name)
{
    pthread_once(&once, make_domain);
    if (domain == NULL)
        return;
    nvtxEventAttributes_t what = {.version = NVTX_VERSION,
                                  .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                  .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                  .message.ascii = name};
    (void)nvtxDomainRangePushEx(domain, &what);
}

void hr__nvtx_pop(void)
{
    if (domain)
        (void)nvtxDomainRangePop(domain);
}
