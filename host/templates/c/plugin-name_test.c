#include <string.h>

#include "testing.h"

static void it_greets_by_name(void) {
    lh_test_reset();
    lh_test_result got = lh_test_call("{\"name\": \"Ada\"}");
    lh_test_expect(got.outcome == LH_SUCCESS);
    lh_test_expect(strcmp(got.output.data, "\"Hello, Ada!\"") == 0);
    lh_test_result_free(&got);
}

static void it_refuses_a_payload_without_a_name(void) {
    lh_test_reset();
    lh_test_result got = lh_test_call("{}");
    lh_test_expect(got.outcome == LH_PERMANENT);
    lh_test_expect(strcmp(got.code.data, "bad-input") == 0);
    lh_test_result_free(&got);
}

int main(void) {
    it_greets_by_name();
    it_refuses_a_payload_without_a_name();
    return lh_test_end();
}
