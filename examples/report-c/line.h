/* One line of the common or the combined log format:
 *
 *     host ident user [time] "method path protocol" status bytes ["referer" "agent" …]
 */
#ifndef LINE_H
#define LINE_H

#include "leasehold.h"

/* What the report needs of a line. */
typedef struct {
    /* Without its query; "-" when the request is not of HTTP's form, as with probes that speak TLS to a plain port. */
    lh_slice path;
    unsigned status;
    /* Size of the response without its head; the format's "-" means none. */
    uint64_t bytes;
} line;

/* False when the text is not of this format. */
bool line_parse(lh_slice text, line *found);

/* Whether there is nothing but blanks in it. */
bool line_is_blank(lh_slice text);

#endif
