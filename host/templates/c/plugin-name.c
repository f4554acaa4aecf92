/* Greets whom its payload names. */
#include "leasehold.h"

lh_outcome lh_handle(lh_run *run, lh_slice input, lh_buf *output) {
    lh_slice name;
    lh_buf text = {0};
    if (!lh_json_get(input, "name", &name))
        return lh_permanent(run, "bad-input", "the payload has no name");
    if (!lh_should_continue()) // before every side effect
        return lh_cancelled(run);
    lh_puts(&text, "Hello, ");
    if (!lh_json_text(name, &text)) {
        lh_free(&text);
        return lh_permanent(run, "bad-input", "the name is no text");
    }
    lh_puts(&text, "!");
    lh_info("attempt %u: %s", (unsigned)run->attempt, text.data);
    lh_put_json(output, lh_slice_of(&text));
    lh_free(&text);
    return LH_SUCCESS;
}
