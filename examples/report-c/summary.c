#include "summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How many paths are listed; the rest is added up. */
#define LISTED_PATHS 10
/* How many paths are told apart: a scanner that asks for random paths must not fill the memory. */
#define DISTINCT_PATHS 10000

/* A log can claim any size; a sum that would not fit stays at the largest number. */
static uint64_t saturating_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static void add(path_counts *to, path_counts more) {
    to->count += more.count;
    to->bytes = saturating_add(to->bytes, more.bytes);
}

static void *grown(void *memory, size_t count, size_t size) {
    void *larger = realloc(memory, count * size);
    if (!larger)
        abort();
    return larger;
}

/* FNV-1a. */
static size_t hash(const char *text) {
    uint64_t h = 0xcbf29ce484222325;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3;
    return (size_t)(h ^ (h >> 32));
}

/* Where the path is, or where it would be. */
static path_entry *slot(path_entry *paths, size_t room, const char *path) {
    size_t at = hash(path) & (room - 1);
    while (paths[at].path && strcmp(paths[at].path, path) != 0)
        at = (at + 1) & (room - 1);
    return &paths[at];
}

static void make_room(counts *c) {
    if (c->paths_len * 2 < c->paths_room)
        return;
    size_t room = c->paths_room ? c->paths_room * 2 : 64;
    path_entry *paths = grown(NULL, room, sizeof *paths);
    memset(paths, 0, room * sizeof *paths);
    for (size_t i = 0; i < c->paths_room; i++)
        if (c->paths[i].path)
            *slot(paths, room, c->paths[i].path) = c->paths[i];
    free(c->paths);
    c->paths = paths;
    c->paths_room = room;
}

static void count_path(counts *c, lh_slice path, uint64_t bytes) {
    path_counts one = {1, bytes};
    lh_buf text = {0};
    lh_put_utf8(&text, path);
    make_room(c);
    path_entry *known = slot(c->paths, c->paths_room, text.data);
    if (!known->path && c->paths_len == DISTINCT_PATHS) {
        add(&c->other, one);
    } else if (!known->path) {
        *known = (path_entry){text.data, one};
        c->paths_len++;
        return;
    } else {
        add(&known->counts, one);
    }
    lh_free(&text);
}

void counts_add(counts *c, lh_slice text) {
    line found;
    c->lines++;
    if (!line_parse(text, &found)) {
        c->malformed++;
        return;
    }
    c->statuses[found.status]++;
    if (c->sizes_len == c->sizes_room) {
        c->sizes_room = c->sizes_room ? c->sizes_room * 2 : 256;
        c->sizes = grown(c->sizes, c->sizes_room, sizeof *c->sizes);
    }
    c->sizes[c->sizes_len++] = found.bytes;
    count_path(c, found.path, found.bytes);
}

/* The most asked for first; what is empty last. */
static int by_count(const void *left, const void *right) {
    const path_entry *a = left, *b = right;
    if (!a->path || !b->path)
        return !a->path - !b->path;
    if (a->counts.count != b->counts.count)
        return a->counts.count < b->counts.count ? 1 : -1;
    return strcmp(a->path, b->path);
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void put_statuses(const counts *c, lh_buf *output) {
    const char *between = "";
    lh_puts(output, "\"by_status\":{");
    for (int status = 0; status < 1000; status++) {
        if (c->statuses[status] == 0)
            continue;
        lh_printf(output, "%s\"%d\":%" PRIu64, between, status, c->statuses[status]);
        between = ",";
    }
    lh_puts(output, "}");
}

static void put_paths(counts *c, lh_buf *output) {
    if (c->paths_room)
        qsort(c->paths, c->paths_room, sizeof *c->paths, by_count);
    lh_puts(output, ",\"by_path\":[");
    for (size_t i = 0; i < c->paths_len; i++) {
        path_entry *entry = &c->paths[i];
        if (i >= LISTED_PATHS) {
            add(&c->other, entry->counts);
            continue;
        }
        lh_puts(output, i ? ",{\"path\":" : "{\"path\":");
        lh_put_json(output, lh_str(entry->path));
        lh_printf(output, ",\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", entry->counts.count, entry->counts.bytes);
    }
    lh_printf(output, "],\"other_paths\":{\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", c->other.count, c->other.bytes);
}

/* By nearest rank: the smallest size that so many percent of the responses do not exceed. */
static uint64_t percentile(const counts *c, size_t percent) {
    size_t rank = (c->sizes_len * percent + 99) / 100;
    return c->sizes[rank ? rank - 1 : 0];
}

void counts_put(counts *c, lh_buf *output) {
    uint64_t sum = 0;
    if (c->sizes_len)
        qsort(c->sizes, c->sizes_len, sizeof *c->sizes, by_size);
    for (size_t i = 0; i < c->sizes_len; i++)
        sum = saturating_add(sum, c->sizes[i]);
    lh_printf(output, "{\"lines\":%" PRIu64 ",\"malformed\":%" PRIu64 ",\"bytes\":%" PRIu64 ",", c->lines, c->malformed, sum);
    put_statuses(c, output);
    put_paths(c, output);
    if (c->sizes_len == 0)
        lh_puts(output, ",\"response_size\":null}");
    else
        lh_printf(output, ",\"response_size\":{\"p50\":%" PRIu64 ",\"p90\":%" PRIu64 ",\"p99\":%" PRIu64 ",\"max\":%" PRIu64 "}}",
                  percentile(c, 50), percentile(c, 90), percentile(c, 99), percentile(c, 100));
}

void counts_free(counts *c) {
    for (size_t i = 0; i < c->paths_room; i++)
        free(c->paths[i].path);
    free(c->paths);
    free(c->sizes);
}
