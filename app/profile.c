/* The profile as an object, its fields, and its writer. */
#include "profile.h"
#include "app_try.h"
#include "profile_fields.h"

#include <stdlib.h>

#define LARGE      1000000000.0
#define MOST_BYTES 68719476736.0      /* of a stage: what the library takes */
#define MOST_SUM   9007199254740992.0 /* whole numbers that JSON keeps */

#define INT(field, least, most)                                                        \
#field, PROFILE_INT, offsetof(profile, field), least, most
#define LINK_US(field)     #field, PROFILE_REAL, offsetof(profile, field), 0, LARGE
#define ROW_US(field)      #field, PROFILE_REAL, offsetof(profile_row, field), 0, LARGE
#define BYTES(field, most) #field, PROFILE_INT64, offsetof(profile_row, field), 0, most

const profile_field hr_app_profile_model[] = {
    {INT(layers, 1, 4096)},   {INT(mtp, 0, 64)},
    {INT(width, 0, LARGE)},   {INT(heads, 0, LARGE)},
    {INT(experts, 0, LARGE)}, {INT(top_k, 0, LARGE)},
    {INT(seq, 0, LARGE)},     {INT(micro_batch_size, 0, LARGE)},
    {INT(ep, 0, LARGE)},      {0},
};

const profile_field hr_app_profile_link[] = {
    {LINK_US(transfer_us)},
    {LINK_US(latency_us)},
    {0},
};

const profile_field hr_app_profile_row[] = {
    {ROW_US(forward_us)},
    {ROW_US(input_grad_us)},
    {ROW_US(weight_grad_us)},
    {BYTES(activation_bytes, MOST_BYTES)},
    {BYTES(stash_bytes, MOST_BYTES)},
    {BYTES(boundary_bytes, MOST_BYTES)},
    {BYTES(param_bytes, MOST_SUM)},
    {0},
};

int hr_app_profile_rows(const profile *p)
{
    return p->layers + p->mtp + 2;
}

hr_status hr_app_profile_create(int layers, int mtp, profile **out)
{
    profile *p = calloc(1, sizeof *p);
    *out = NULL;
    if (p) {
        p->layers = layers;
        p->mtp = mtp;
        p->row = calloc((size_t)hr_app_profile_rows(p), sizeof *p->row);
    }
    if (!p || !p->row) {
        hr_app_profile_destroy(p);
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the costs of %d layers",
                       layers);
    }
    *out = p;
    return HR_OK;
}

void hr_app_profile_destroy(profile *p)
{
    if (p)
        free(p->row);
    free(p);
}

void hr_app_profile_name(const profile *p, int i, char out[PROFILE_NAME])
{
    if (i == 0 || i == hr_app_profile_rows(p) - 1)
        snprintf(out, PROFILE_NAME, "%s", i == 0 ? "embedding" : "loss");
    else if (i <= p->layers)
        snprintf(out, PROFILE_NAME, "layer %d", i - 1);
    else
        snprintf(out, PROFILE_NAME, "mtp %d", i - 1 - p->layers);
}

/* "key": value, and so on. */
static void put_fields(FILE *f, const profile_field *field, const void *from)
{
    for (const char *comma = ""; field->key; field++, comma = ", ") {
        const void *at = (const char *)from + field->offset;
        fprintf(f, "%s\"%s\": ", comma, field->key);
        if (field->kind == PROFILE_INT)
            fprintf(f, "%d", *(const int *)at);
        else if (field->kind == PROFILE_INT64)
            fprintf(f, "%lld", (long long)*(const int64_t *)at);
        else
            fprintf(f, "%.3f", *(const double *)at);
    }
}

hr_status hr_app_profile_write(const profile *p, const char *path)
{
    hr_file *file = NULL;
    APP_TRY(hr_file_begin(path, &file));
    FILE *f = hr_file_stream(file);
    fprintf(f, "{\n  \"version\": %d,\n  \"model\": {", PROFILE_VERSION);
    put_fields(f, hr_app_profile_model, p);
    fputs("},\n  ", f);
    put_fields(f, hr_app_profile_link, p);
    fputs(",\n  \"row\": [", f);
    for (int i = 0; i < hr_app_profile_rows(p); i++) {
        char name[PROFILE_NAME];
        hr_app_profile_name(p, i, name);
        fprintf(f, "%s\n    {\"name\": \"%s\", ", i ? "," : "", name);
        put_fields(f, hr_app_profile_row, &p->row[i]);
        fputc('}', f);
    }
    fputs("\n  ]\n}\n", f);
    return hr_file_commit(file); /* knows what a write met */
}
