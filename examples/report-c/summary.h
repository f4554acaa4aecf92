/* What the lines add up to. */
#ifndef SUMMARY_H
#define SUMMARY_H

#include "line.h"

typedef struct {
    uint64_t count;
    uint64_t bytes;
} path_counts;

typedef struct {
    char *path;
    path_counts counts;
} path_entry;

/* Grows line by line; begins as {0}. */
typedef struct {
    uint64_t lines;
    uint64_t malformed;
    uint64_t statuses[1000];
    /* A hash table, open addressing; its room is a power of two. */
    path_entry *paths;
    size_t paths_len;
    size_t paths_room;
    path_counts other;
    uint64_t *sizes;
    size_t sizes_len;
    size_t sizes_room;
} counts;

void counts_add(counts *c, lh_slice text);
/* Adds the report, as JSON. Sorts what was counted, so this is the last thing to do with it. */
void counts_put(counts *c, lh_buf *output);
void counts_free(counts *c);

#endif
