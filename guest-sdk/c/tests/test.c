/* Tests of the SDK itself: `make test` in this folder. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

/* What the handler under test does is what its payload says first. */
lh_outcome lh_handle(lh_run *run, lh_slice input, lh_buf *output) {
    if (lh_equal(input, "echo")) {
        lh_printf(output, "%s %s/%s %u %s", run->id, run->tenant, run->job, run->attempt, run->reason);
        for (size_t i = 0; i < run->metadata_len; i++)
            lh_printf(output, " %s=%s", run->metadata[i].key, run->metadata[i].value);
        return LH_SUCCESS;
    }
    if (lh_equal(input, "fail")) {
        lh_outcome outcome = lh_permanent(run, "bad-port", "no port %d \xff", 70000);
        lh_detail(run, "port\xff", "70000\xff");
        return outcome;
    }
    if (lh_equal(input, "relent")) {
        lh_permanent(run, "bad-port", "no port");
        lh_detail(run, "port", "70000");
        return LH_SUCCESS;
    }
    if (lh_equal(input, "wait"))
        return lh_sleep(1000000) ? LH_SUCCESS : lh_cancelled(run);
    if (lh_equal(input, "send")) {
        lh_slice body = lh_str("body");
        lh_request request = {
            .method = "POST", .url = "https://api.example.com/", .headers = (lh_field[]){{"a", "b"}}, .headers_len = 1,
            .body = &body,
        };
        lh_response response = {0};
        lh_status status = lh_send(&request, &response);
        if (status)
            return lh_fail(run, status);
        lh_printf(output, "%d %s %s", response.status, lh_response_header(&response, "X-Reply"), response.body.data);
        lh_response_free(&response);
    }
    return LH_SUCCESS;
}

static void call(const char *payload, lh_outcome outcome, const char *output, const char *code) {
    lh_test_result got = lh_test_call(payload);
    lh_test_expect(got.outcome == outcome);
    lh_test_expect(strcmp(got.output.data, output) == 0);
    lh_test_expect(strcmp(got.code.data, code) == 0);
    lh_test_result_free(&got);
}

static void a_handler_is_called_with_its_run(void) {
    lh_test_reset();
    call("echo", LH_SUCCESS, "test-run test/job 1 schedule", "");
    call("", LH_SUCCESS, "", "");
    call("relent", LH_SUCCESS, "", "");
}

static void the_next_attempt_finds_what_the_one_before_has_saved(void) {
    lh_buf got = {0};
    bool found;
    lh_test_reset();
    lh_test_run()->metadata = (lh_field[]){{"trace", "7"}, {"empty", ""}};
    lh_test_run()->metadata_len = 2;
    uint64_t fence = lh_test_run()->fence;
    lh_save_state(lh_str("here"));
    lh_test_stop_after(0, "stopping");
    lh_test_next_attempt();
    lh_test_expect(lh_should_continue() && lh_test_run()->fence > fence);
    call("echo", LH_SUCCESS, "test-run test/job 2 takeover trace=7 empty=", "");
    lh_test_expect(lh_load_state(&got, &found) == LH_OK && found && lh_equal(lh_slice_of(&got), "here"));
    lh_free(&got);
    lh_test_reset();
    call("echo", LH_SUCCESS, "test-run test/job 1 schedule", "");
}

static void a_failure_has_code_message_and_details(void) {
    lh_test_reset();
    lh_test_result got = lh_test_call("fail");
    lh_test_expect(got.outcome == LH_PERMANENT);
    lh_test_expect(strcmp(got.message.data, "no port 70000 \xEF\xBF\xBD") == 0);
    lh_test_expect(strcmp(got.details.data, "port\xEF\xBF\xBD=70000\xEF\xBF\xBD\n") == 0);
    lh_test_result_free(&got);
}

static void a_stopped_run_is_cancelled(void) {
    lh_test_reset();
    lh_test_expect(lh_should_continue() && lh_stop_reason() == NULL && lh_remaining_ms() == -1);
    lh_test_stop_after(1, "stopping");
    lh_test_expect(lh_should_continue() && !lh_should_continue());
    lh_test_expect(strcmp(lh_stop_reason(), "stopping") == 0);
    call("wait", LH_CANCELLED, "", "");
}

static lh_status answer(const lh_request *request, lh_response *response) {
    if (strcmp(request->method, "POST") != 0 || !lh_equal(*request->body, "body") || request->headers_len != 1)
        return LH_INVALID;
    response->status = 201;
    response->headers = malloc(sizeof *response->headers);
    response->headers[0] = (lh_field){strdup("x-reply"), strdup("yes")};
    response->headers_len = 1;
    lh_puts(&response->body, "done");
    return LH_OK;
}

static lh_status too_late(const lh_request *request, lh_response *response) {
    (void)request;
    (void)response;
    return LH_TIMEOUT;
}

static void a_test_answers_requests_itself(void) {
    lh_test_reset();
    call("send", LH_PERMANENT, "", "http-denied");
    lh_test_answer(answer);
    call("send", LH_SUCCESS, "201 yes done", "");
    lh_test_answer(too_late);
    call("send", LH_RETRYABLE, "", "http-timeout");
}

static void collect(lh_slice key, void *with) {
    lh_put(with, key);
    lh_puts(with, " ");
}

static void state_and_keys_are_kept(void) {
    lh_buf got = {0};
    bool found, done;
    lh_test_reset();
    lh_test_expect(lh_load_state(&got, &found) == LH_OK && !found);
    lh_test_expect(lh_save_state(lh_str("here")) == LH_OK);
    lh_test_expect(lh_load_state(&got, &found) == LH_OK && found && lh_equal(lh_slice_of(&got), "here"));
    lh_clear(&got);
    lh_kv_set("b", lh_str("b"));
    lh_kv_set("a/2", lh_str("2"));
    lh_kv_set("a/1", lh_str(""));
    lh_test_expect(lh_kv_list("a/", NULL, 10, collect, &got) == LH_OK && lh_equal(lh_slice_of(&got), "a/1 a/2 "));
    lh_clear(&got);
    lh_test_expect(lh_kv_list("", "a/1", 1, collect, &got) == LH_OK && lh_equal(lh_slice_of(&got), "a/2 "));
    lh_clear(&got);
    lh_test_expect(lh_kv_get("a/1", &got, &found) == LH_OK && found && got.len == 0);
    lh_slice expected = lh_str("b");
    lh_test_expect(lh_kv_compare_and_set("b", NULL, lh_str("x"), &done) == LH_OK && !done);
    lh_test_expect(lh_kv_compare_and_set("b", &expected, lh_str("x"), &done) == LH_OK && done);
    lh_test_expect(lh_kv_compare_and_set("new", NULL, lh_str("x"), &done) == LH_OK && done);
    lh_test_expect(lh_kv_get("b", &got, &found) == LH_OK && found && lh_equal(lh_slice_of(&got), "x"));
    lh_test_expect(lh_kv_delete("b", &done) == LH_OK && done);
    lh_test_expect(lh_kv_delete("b", &done) == LH_OK && !done);
    lh_free(&got);
}

static void expect_too_large(lh_status status, uint64_t limit) {
    lh_test_expect(status == LH_TOO_LARGE && lh_last_limit() == limit);
}

static void what_is_too_large_for_the_host_is_refused(void) {
    enum { KEY = 512, VALUE = 1 << 20 };
    lh_buf long_key = {0}, large = {0};
    bool found;
    for (int i = 0; i <= KEY; i++)
        lh_puts(&long_key, "k");
    while (large.len <= VALUE)
        lh_put(&large, lh_slice_of(&long_key));
    large.len = VALUE + 1;
    lh_test_reset();
    expect_too_large(lh_kv_get(long_key.data, NULL, &found), KEY);
    expect_too_large(lh_kv_set(long_key.data, lh_str("")), KEY);
    expect_too_large(lh_kv_delete(long_key.data, &found), KEY);
    expect_too_large(lh_kv_list(long_key.data, NULL, 1, NULL, NULL), KEY);
    expect_too_large(lh_kv_list("", long_key.data, 1, NULL, NULL), KEY);
    expect_too_large(lh_kv_compare_and_set(long_key.data, NULL, lh_str(""), &found), KEY);
    expect_too_large(lh_kv_set("k", lh_slice_of(&large)), VALUE);
    expect_too_large(lh_kv_compare_and_set("k", NULL, lh_slice_of(&large), &found), VALUE);
    expect_too_large(lh_save_state(lh_slice_of(&large)), VALUE);
    lh_slice body = lh_slice_of(&large);
    lh_response response;
    lh_test_answer(too_late);
    expect_too_large(lh_send(&(lh_request){.url = "https://api.example.com/", .body = &body}, &response), VALUE);
    large.len = VALUE;
    lh_test_expect(lh_kv_set(long_key.data + 1, lh_slice_of(&large)) == LH_OK);
    lh_free(&long_key);
    lh_free(&large);
}

static void settings_keys_progress_and_logs_reach_the_host(void) {
    lh_buf got = {0};
    uint64_t done, total;
    lh_test_reset();
    lh_test_expect(!lh_config("region", &got));
    lh_test_set_config("region", "eu");
    lh_test_expect(lh_config("region", &got) && lh_equal(lh_slice_of(&got), "eu"));
    lh_clear(&got);
    lh_idempotency_key("charge-42", &got);
    lh_test_expect(lh_equal(lh_slice_of(&got), "test:charge-42"));
    lh_progress(2, 3, "copied \xff");
    lh_test_progress(&done, &total);
    lh_test_expect(done == 2 && total == 3);
    lh_log_fields(LH_WARN, (lh_field[]){{"n", "7"}, {"\xff", "\xC3"}}, 2, "line %d", 1);
    lh_test_expect(strcmp(lh_test_log(), "warn line 1 n=7 \xEF\xBF\xBD=\xEF\xBF\xBD\n") == 0);
    lh_free(&got);
}

static void send_to(const char *url, const char *value) {
    lh_request request = {.url = url, .headers = (lh_field[]){{"a", value}}, .headers_len = 1};
    lh_response response;
    lh_send(&request, &response);
}

static void bad_key(void) { lh_kv_set("caf\xE9", lh_str("x")); }
static void bad_prefix(void) { lh_kv_list("caf\xE9", NULL, 10, NULL, NULL); }
static void bad_setting(void) { lh_config("caf\xE9", NULL); }
static void bad_operation(void) { lh_idempotency_key("caf\xE9", &(lh_buf){0}); }
static void bad_url(void) { send_to("https://api.example.com/caf\xE9", "b"); }
static void bad_header(void) { send_to("https://api.example.com/", "caf\xE9"); }

/* Where the host would trap, the double ends the program of the tests: here, one of its own. */
static void what_the_host_would_trap_on_ends_the_tests(void) {
    void (*calls[])(void) = {bad_key, bad_prefix, bad_setting, bad_operation, bad_url, bad_header};
    lh_test_reset();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            calls[i]();
            _exit(0);
        }
        lh_test_expect(child > 0 && waitpid(child, &status, 0) == child);
        lh_test_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

static void json_is_read_where_it_stands(void) {
    const char *text = " { \"a\" : [1, {\"b\": -2}, \"\\u00fc\\ud83e\\udd80\\n\\\"\" ] , \"n\\u0065t\": null, \"c\": 9223372036854775807}";
    lh_slice value, name;
    lh_buf got = {0};
    int64_t number;
    lh_test_expect(lh_json_get(lh_str(text), "net", &value) && lh_json_is_null(value));
    lh_test_expect(lh_json_get(lh_str(text), "c", &value) && lh_json_int(value, &number) && number == INT64_MAX);
    lh_test_expect(!lh_json_get(lh_str(text), "d", &value));
    lh_test_expect(lh_json_get(lh_str(text), "a", &value));
    size_t at = 0;
    lh_slice list = value;
    lh_test_expect(lh_json_next(list, &at, &name, &value) && lh_json_int(value, &number) && number == 1);
    lh_test_expect(lh_json_next(list, &at, &name, &value) && lh_json_get(value, "b", &value) &&
                   lh_json_int(value, &number) && number == -2);
    lh_test_expect(lh_json_next(list, &at, &name, &value) && lh_json_text(value, &got));
    lh_test_expect(lh_equal(lh_slice_of(&got), "ü🦀\n\""));
    lh_test_expect(!lh_json_next(list, &at, &name, &value));
    lh_clear(&got);
    lh_put_json(&got, lh_str("ü\x01\"\\ \xff"));
    lh_test_expect(lh_equal(lh_slice_of(&got), "\"ü\\u0001\\\"\\\\ \xEF\xBF\xBD\""));
    lh_free(&got);
}

static void broken_json_is_not_read(void) {
    const char *broken[] = {"", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":\"", "{\"a\":\"\\", "{\"a\" 1}", "{\"a\":01}", "{\"a\":tru}",
                            "{\"a\":1.}", "{\"a\":-}", "{\"a\":[1,]}", "{\"a\":{\"b\"}}"};
    lh_slice value;
    lh_buf deep = {0};
    int64_t number;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        lh_test_expect(!lh_json_valid(lh_str(broken[i])));
    lh_test_expect(lh_json_valid(lh_str(" [1, 0.5e-3, true, \"\", {}] ")) && !lh_json_valid(lh_str("1 1")));
    for (int i = 0; i < 100000; i++)
        lh_puts(&deep, "{\"a\":");
    lh_test_expect(!lh_json_get(lh_slice_of(&deep), "a", &value));
    lh_free(&deep);
    lh_test_expect(!lh_json_int(lh_str("9223372036854775808"), &number) && !lh_json_int(lh_str("1.0"), &number));
    lh_test_expect(lh_json_int(lh_str("-9223372036854775808"), &number) && number == INT64_MIN);
    lh_test_expect(!lh_json_text(lh_str("\"\\u12\""), &deep) && !lh_json_text(lh_str("\"a"), &deep));
    lh_free(&deep);
}

int main(void) {
    a_handler_is_called_with_its_run();
    the_next_attempt_finds_what_the_one_before_has_saved();
    a_failure_has_code_message_and_details();
    a_stopped_run_is_cancelled();
    a_test_answers_requests_itself();
    state_and_keys_are_kept();
    what_is_too_large_for_the_host_is_refused();
    settings_keys_progress_and_logs_reach_the_host();
    what_the_host_would_trap_on_ends_the_tests();
    json_is_read_where_it_stands();
    broken_json_is_not_read();
    return lh_test_end();
}
