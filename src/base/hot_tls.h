/* For small state of a thread that every node asks for several times. A shared library finds it without
 * a call then, at the price of a place in the fixed part of thread storage, of which libraries that
 * are loaded late share little: for a few words each, 300 bytes in all. */
#ifndef HR_HOT_TLS_H
#define HR_HOT_TLS_H

#define HR__HOT_TLS __attribute__((tls_model("initial-exec")))

#endif
