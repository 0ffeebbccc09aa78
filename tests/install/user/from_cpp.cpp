/* The installed library from C++17: a device with an owner, a node whose functions are of C++, a
 * failure that a kernel puts into words. */
#include <cstdio>
#include <cstring>
#include <headrace/headrace.h>
#include <memory>

struct Close {
    void operator()(hr_device *dev) const
    {
        hr_device_close(dev);
    }
    void operator()(hr_node *node) const
    {
        hr_node_destroy(node);
    }
    void operator()(hr_tensor *t) const
    {
        hr_tensor_release(t);
    }
};
template <class T> using Owned = std::unique_ptr<T, Close>;

static hr_status twice(void *, hr_node *, hr_tensor *const *in, int, hr_tensor **out,
                       int *n_out)
{
    *n_out = 1;
    return hr_op_add(in[0], in[0], &out[0]);
}

static hr_status use(hr_device *dev)
{
    const float three = 3;
    float six = 0;
    hr_tensor *made = nullptr, *const *out = nullptr;
    hr_node *node = nullptr;
    int n = 0;
    if (hr_tensor_create(HR_F32, 0, nullptr, &made) < 0)
        return HR_ERR_DEVICE;
    Owned<hr_tensor> x(made);
    hr_schedule_node_opts opts = {};
    opts.size = sizeof opts;
    opts.forward = twice;
    if (hr_schedule_node_create(&opts, &node) < 0)
        return HR_ERR_DEVICE;
    Owned<hr_node> owner(node);
    if (hr_tensor_write(made, &three, sizeof three) < 0 ||
        hr_node_forward(node, &made, 1, &out, &n) < 0 ||
        hr_tensor_read(out[0], &six, sizeof six) < 0 || six != 6)
        return HR_ERR_DEVICE;
    auto fails = [](const void *, hr_team *) -> hr_status {
        return hr_fail(HR_ERR_CALLBACK, "cpp", "said in %s", "C++");
    };
    if (hr_launch(hr_stream_current(), "fails", fails, nullptr, 0, nullptr, 0) < 0)
        return HR_ERR_DEVICE;
    bool told = hr_device_synchronize(dev) == HR_ERR_CALLBACK &&
                std::strstr(hr_last_error(), "said in C++");
    return told ? HR_OK : HR_ERR_DEVICE;
}

int main()
{
    hr_device *opened = nullptr;
    if (hr_device_open("host", nullptr, &opened) < 0)
        return 1;
    Owned<hr_device> dev(opened);
    hr_device_set_current(opened);
    hr_status st = use(opened);
    std::printf("headrace %s: %s\n", hr_version(), hr_status_name(st));
    return st == HR_OK ? 0 : 1;
}
