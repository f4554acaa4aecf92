#include <string.h>

#include "testing.h"

#define LINE "192.0.2.1 - - [29/Nov/2026:10:00:00 +0000] \"GET /a?b HTTP/1.1\" 200 100 \"-\" \"curl/8.5.0\""
#define REPORT_OF_ONE                                                                                                  \
    "{\"lines\":1,\"malformed\":0,\"bytes\":100,\"by_status\":{\"200\":1},"                                            \
    "\"by_path\":[{\"path\":\"/a\",\"count\":1,\"bytes\":100}],\"other_paths\":{\"count\":0,\"bytes\":0},"             \
    "\"response_size\":{\"p50\":100,\"p90\":100,\"p99\":100,\"max\":100}}"

static void reports(const char *payload, const char *output) {
    lh_test_reset();
    lh_test_result got = lh_test_call(payload);
    lh_test_expect(got.outcome == LH_SUCCESS);
    lh_test_expect(strcmp(got.output.data, output) == 0);
    lh_test_result_free(&got);
}

static void a_raw_log_is_counted_and_its_broken_lines_too(void) {
    reports(LINE "\n\nnonsense\n" LINE "\r\n",
            "{\"lines\":3,\"malformed\":1,\"bytes\":200,\"by_status\":{\"200\":2},"
            "\"by_path\":[{\"path\":\"/a\",\"count\":2,\"bytes\":200}],\"other_paths\":{\"count\":0,\"bytes\":0},"
            "\"response_size\":{\"p50\":100,\"p90\":100,\"p99\":100,\"max\":100}}");
}

static void a_request_with_a_pace_gives_the_same_report(void) {
    lh_buf request = {0};
    lh_puts(&request, "{\"pace_ms\": 20, \"log\": ");
    lh_put_json(&request, lh_str(LINE));
    lh_puts(&request, "}");
    reports(request.data, REPORT_OF_ONE);
    reports(LINE, REPORT_OF_ONE);
    lh_free(&request);
}

static void an_empty_log_gives_a_report_of_nothing(void) {
    reports("", "{\"lines\":0,\"malformed\":0,\"bytes\":0,\"by_status\":{},\"by_path\":[],"
                "\"other_paths\":{\"count\":0,\"bytes\":0},\"response_size\":null}");
}

static void what_is_neither_a_log_nor_a_request_is_refused(void) {
    const char *payloads[] = {"{", "{\"pace_ms\": 1}", "{\"log\": \"\", \"what\": 1}", "{\"log\": \"\", \"pace_ms\": -1}"};
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        lh_test_reset();
        lh_test_result got = lh_test_call(payloads[i]);
        lh_test_expect(got.outcome == LH_PERMANENT && strcmp(got.code.data, "bad-input") == 0);
        lh_test_result_free(&got);
    }
}

static void it_stops_between_two_chunks(void) {
    lh_buf log = {0};
    uint64_t done, total;
    for (int i = 0; i < 400; i++)
        lh_puts(&log, LINE "\n");
    lh_test_reset();
    lh_test_stop_after(1, "stopping");
    lh_test_result got = lh_test_call(log.data);
    lh_test_progress(&done, &total);
    lh_test_expect(got.outcome == LH_CANCELLED && done == 200 && total == 400);
    lh_test_result_free(&got);
    lh_free(&log);
}

static void the_most_asked_for_come_first_and_the_rest_is_added_up(void) {
    lh_buf log = {0};
    lh_test_reset();
    for (int path = 0; path < 12; path++)
        for (int i = 0; i <= path; i++)
            lh_printf(&log, "h - - [t] \"GET /%d HTTP/1.1\" 200 10\n", path);
    lh_test_result got = lh_test_call(log.data);
    lh_test_expect(strstr(got.output.data, "\"by_path\":[{\"path\":\"/11\",\"count\":12,\"bytes\":120},"));
    lh_test_expect(strstr(got.output.data, "\"other_paths\":{\"count\":3,\"bytes\":30}"));
    lh_test_result_free(&got);
    lh_free(&log);
}

int main(void) {
    a_raw_log_is_counted_and_its_broken_lines_too();
    a_request_with_a_pace_gives_the_same_report();
    an_empty_log_gives_a_report_of_nothing();
    what_is_neither_a_log_nor_a_request_is_refused();
    it_stops_between_two_chunks();
    the_most_asked_for_come_first_and_the_rest_is_added_up();
    return lh_test_end();
}
