package cli

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the commands print into testdata/golden.txt")

// notGolden are the commands whose output is compared elsewhere, or with nothing, and why.
var notGolden = map[string]string{
	"dev":         "runs until a signal; testdata/script/dev.txt has its lines",
	"serve":       "runs until a signal; testdata/script/serve.txt has its lines",
	"mcp":         "speaks a protocol; mcp_test.go has a session",
	"backup":      "reads a data directory; testdata/script/backup.txt",
	"restore":     "writes a data directory; testdata/script/backup.txt",
	"check":       "reads a data directory; testdata/script/backup.txt",
	"copy":        "copies a data directory; testdata/script/copy.txt",
	"schema show": "reads a database; e2e/database_test.go",
	"verify":      "its times are relative to now; testdata/script/verify.txt",
	"version":     "changes with each release; testdata/script/version.txt",
	"completion":  "prints a script for a shell; testdata/script/completion.txt",
	"help":        "prints what --help does; testdata/script/help.txt",
}

// TestGolden prints what commands show of the same answers in a narrow and in a wide terminal.
// A command has output here or a reason in notGolden. Read the difference after -update.
func TestGolden(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, answer := range goldenAnswers {
			if r.Method+" "+r.URL.Path == answer.route {
				_, _ = w.Write([]byte(answer.body))
				return
			}
		}
		if r.Method == http.MethodGet {
			t.Errorf("there is no answer to %s", r.URL)
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte("{}")) // to changes that are answered with nothing to show
	}))
	defer server.Close()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("POSTHASTE_URL", server.URL)
	missing := leaves(t)
	for path, why := range notGolden {
		if _, found := missing[path]; !found {
			t.Errorf("%s is no command, or is excused twice: %s", path, why)
		}
		delete(missing, path)
	}
	shown := map[string][]string{} // what the commands print, by width
	all := strings.Split(strings.TrimSpace(goldenCommands), "\n")
	for _, width := range []string{"80", "160"} {
		t.Setenv("COLUMNS", width)
		for _, command := range all {
			words := wordsOf(t, "posthaste "+command)
			maps.DeleteFunc(missing, func(path string, _ *kong.Node) bool {
				return strings.HasPrefix(command+" ", path+" ")
			})
			var out bytes.Buffer

			if code := run(words, terminal{&out, &out}); code != exitOK {
				t.Errorf("%s: exit code %d: %s", command, code, &out)
			}
			text := strings.ReplaceAll(out.String(), server.URL, "http://127.0.0.1:8080")
			shown[width] = append(shown[width], text)
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); width == "80" && n > 80 && isTable(command) {
					t.Errorf("%s: a line of %d characters: %s", command, n, line)
				}
			}
		}
	}
	var got strings.Builder
	for i, command := range all {
		if narrow, wide := shown["80"][i], shown["160"][i]; narrow == wide {
			fmt.Fprintf(&got, "$ %s\n%s\n", command, narrow)
		} else {
			fmt.Fprintf(&got, "$ %[1]s    # 80 columns\n%[2]s\n$ %[1]s    # 160 columns\n%[3]s\n", command, narrow, wide)
		}
	}
	for path := range missing {
		t.Errorf("%s has neither output in goldenCommands nor a reason in notGolden", path)
	}
	const file = "testdata/golden.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if diff := cmp.Diff(string(want), got.String()); err != nil || diff != "" {
		t.Errorf("-want +got: %v\n%s", err, diff)
	}
}

// isTable reports whether a command prints lines that are to fit.
func isTable(command string) bool {
	return strings.Contains(command, " list") || strings.HasPrefix(command, "log") || strings.HasPrefix(command, "stats")
}

// goldenCommands are in the order in which they are run.
const goldenCommands = `
health
publish shops
enqueue orders shops
trigger http://a.example.com
notify paid
logs
logs --by-message
log-stats
stats --days
messages list
messages show msg_26hZCxZCuWyyTWPmSVBrNB882AAA
messages run-now msg_26hZCxZCuWyyTWPmSVBrNB882AAA
messages retry msg_26hZCxZCuWyyTWPmSVBrNB882AAA
messages cancel msg_26hZCxZCuWyyTWPmSVBrNB882AAA
runs list
runs show wfr_65b1f0c2a4
runs cancel wfr_65b1f0c2a4
dlq list
dlq show 1700000000000-0
dlq restart 1700000000000-0
dlq resume 1700000000000-0
dlq delete 1700000000000-0
dlq messages list
dlq messages show 1700000000000-0
dlq messages retry 1700000000000-0
dlq messages delete 1700000000000-0
actions list
actions cancel act_17000000000008c1f0e2a9b3d
queues list
queues show orders
queues set orders --parallelism 4
queues pause orders
queues resume orders
queues delete orders --yes
groups list
groups show shops
groups set shops --endpoint https://a.example.com
groups remove shops a
groups delete shops
schedules list
schedules show nightly
schedules ticks '0 3 * * *'
schedules set nightly https://api.example.com/report --cron '30 3 * * *'
schedules pause nightly
schedules resume nightly
schedules delete nightly
flow list
flow show tenant-7
flow set tenant-7 --parallelism 5
flow pause tenant-7
flow resume tenant-7
flow reset-rate tenant-7
flow unpin tenant-7
flow delete tenant-7
keys show
keys rotate --yes
open
profile add work --url https://posthaste.example.com --token secret
profile use work
profile list
profile remove work
apply -f testdata/golden.yaml --plan
apply -f testdata/golden.yaml
import --from "$POSTHASTE_URL" --token other --dry-run
`

const (
	goldenQueue    = `{"name":"orders","parallelism":4,"paused":true,"lag":12,"createdAt":1700000000000,"updatedAt":1700000001000}`
	goldenGroup    = `{"name":"shops","createdAt":1700000000000,"updatedAt":1700000000000,"endpoints":[{"name":"a","url":"https://a.example.com/webhooks/incoming/orders"},{"url":"https://b.example.com/webhooks/incoming/orders"}],"headers":{"Upstash-Retries":["5"]}}`
	goldenSchedule = `{"scheduleId":"nightly","cron":"CRON_TZ=UTC 30 3 * * 1-5","destination":"https://api.example.com/reports/daily?format=csv&region=eu-central","method":"POST","createdAt":1700000000000,"retries":3,"isPaused":false,"delay":60,"timeout":30000,"nextScheduleTime":1700000000000,"label":"report","body":"{}","header":{"Content-Type":["application/json"]}}`
	goldenFlow     = `{"flowControlKey":"tenant-7","waitListSize":3,"parallelismMax":5,"parallelismCount":2,"rateMax":100,"rateCount":40,"ratePeriod":60,"isPinnedParallelism":true,"isPinnedRate":false,"isPaused":false}`
	goldenLog      = `{"events":[
		{"time":1700000012400,"state":"DELIVERED","attempt":{"status":200,"duration":400},"messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","method":"POST","url":"https://api.example.com/orders"},
		{"time":1700000012000,"state":"ACTIVE","messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","method":"POST","url":"https://api.example.com/orders"},
		{"time":1700000000300,"state":"RETRY","messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","method":"POST","url":"https://api.example.com/orders","nextDeliveryTime":1700000012000},
		{"time":1700000000300,"state":"ERROR","messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","method":"POST","url":"https://api.example.com/orders","responseStatus":503,"error":"503: the destination is overloaded and asks for another attempt later"},
		{"time":1700000000010,"state":"ACTIVE","messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","method":"POST","url":"https://api.example.com/orders"},
		{"time":1700000000005,"state":"CANCEL_REQUESTED","messageId":"msg_26hZCxZCuWyyTWPmSVBrNC","method":"GET","url":"https://b.example.com"},
		{"time":1700000000000,"state":"CREATED","messageId":"msg_26hZCxZCuWyyTWPmSVBrNC","method":"GET","url":"https://b.example.com"},
		{"time":1700000000000,"state":"CREATED","messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","method":"POST","url":"https://api.example.com/orders","label":"order-42"}]}`
	goldenRuns = `{"runs":[{"workflowRunId":"wfr_65b1f0c2a4d3e2f1a0b9c8d7","workflowUrl":"https://app.example.com/api/order","workflowState":"RUN_SUCCESS","workflowRunCreatedAt":1700000000000,"workflowRunCompletedAt":1700000003000,"label":"order-42","workflowRunResponse":"{\"ok\":true}","steps":[
		{"type":"sequential","steps":[{"stepName":"init","stepType":"Initial","state":"STEP_SUCCESS","createdAt":1700000000000,"out":"{\"order\":42}"}]},
		{"type":"parallel","steps":[{"stepId":1,"stepName":"charge the card","stepType":"Run","state":"STEP_SUCCESS","createdAt":1700000000100,"out":"{\"charged\":true,\"receipt\":\"https://pay.example.com/receipts/42\"}"},{"stepId":2,"stepName":"pack","stepType":"Run","state":"STEP_SUCCESS","createdAt":1700000000100}]}]}]}`
	goldenLetters = `{"messages":[{"dlqId":"1700000000000-0","messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","url":"https://api.example.com/orders","failedAt":1700000000000,"responseStatus":500,"workflowRunId":"wfr_65b1f0c2a4d3e2f1a0b9c8d7","workflowUrl":"https://app.example.com/api/order"}]}`
)

var goldenAnswers = []struct{ route, body string }{
	{"GET /v2/logs/stats", `{"bucket":"hour","total":{"states":{"CREATED":1200,"ACTIVE":1256,"ERROR":66,"RETRY":60,"DELIVERED":1190,"FAILED":6},"latency":{"count":1256,"p50":46,"p90":120,"p99":928}},"buckets":[{"time":1700000000000,"states":{"CREATED":1200,"ERROR":66,"DELIVERED":1190,"FAILED":6},"latency":{"p50":46,"p99":928}},{"time":1700003600000,"states":{}}],"paths":[{"host":"api.example.com","path":"/hook","states":{"ERROR":66,"FAILED":6},"latency":{"p50":120,"p99":1992}}]}`},
	{"GET /v2/logs", goldenLog},
	{"GET /v2/messages/msg_26hZCxZCuWyyTWPmSVBrNB882AAA", `{"messageId":"msg_26hZCxZCuWyyTWPmSVBrNB882AAA","url":"https://api.example.com/orders","method":"POST","maxRetries":3,"createdAt":1700000000000,"notBefore":1700000000000,"label":"order-42","body":"{\"order\":42}"}`},
	{"GET /v2/workflows/logs", goldenRuns},
	{"GET /v2/workflows/events", `{"events":[{"time":1700000002500,"state":"STEP_SUCCESS","stepInfo":{"stepId":1}},{"time":1700000000200,"state":"STEP_SUCCESS","stepInfo":{"stepId":2}},{"time":1700000000020,"state":"STEP_SUCCESS","stepInfo":{"stepName":"init"}}]}`},
	{"GET /v2/workflows/dlq", goldenLetters},
	{"GET /v2/dlq", goldenLetters},
	{"GET /v2/usage", `{"log":{"entries":1234567,"oldest":1700000000000,"bytes":987654321,"days":[{"day":"2023-11-14","entries":1234567,"oldest":1700000000000,"bytes":987654321}]},"deadLetters":{"entries":1,"oldest":1700000000000,"bytes":100},"failedRuns":{"entries":0,"bytes":0},"runs":{"entries":12,"oldest":1700000000000,"bytes":4096}}`},
	{"GET /v2/bulkActions", `[{"actionId":"act_17000000000008c1f0e2a9b3d","kind":"cancel","state":"FINISHED","total":100,"processed":99,"failed":1,"createdAt":1700000000000,"filter":{"label":["order-42"],"host":["api.example.com"]}}]`},
	{"GET /v2/workflows/bulkActions", `[]`},
	{"GET /v2/queues", "[" + goldenQueue + "]"},
	{"GET /v2/queues/orders", goldenQueue},
	{"GET /v2/topics", "[" + goldenGroup + "]"},
	{"GET /v2/topics/shops", goldenGroup},
	{"GET /v2/schedules", "[" + goldenSchedule + "]"},
	{"GET /v2/schedules/nightly", goldenSchedule},
	{"GET /v2/ticks", `{"cron":"0 3 * * *","zone":"UTC","ticks":[1700000000000,1700086400000]}`},
	{"GET /v2/flowControl", "[" + goldenFlow + "]"},
	{"GET /v2/flowControl/tenant-7", goldenFlow},
	{"GET /v2/keys", `{"current":"sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r","next":"sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs"}`},
	{"POST /v2/publish/shops", `[{"messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","url":"https://a.example.com"},{"messageId":"msg_26hZCxZCuWyyTWPmSVBrNC","url":"https://b.example.com","deduplicated":true}]`},
	{"POST /v2/trigger/http://a.example.com", `{"workflowRunId":"wfr_65b1f0c2a4","workflowCreatedAt":1700000000000,"deduplicated":false}`},
	{"GET /v2/readiness", `{"traffic":true}`},
	{"GET /v2/dlq/1700000000000-0", `{"dlqId":"1700000000000-0","messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","url":"https://api.example.com/orders","method":"POST","maxRetries":3,"failedAt":1700000000000,"createdAt":1700000000000,"responseStatus":500,"responseBody":"out of memory","body":"{\"order\":42}"}`},
	{"GET /v2/workflows/dlq/1700000000000-0", `{"dlqId":"1700000000000-0","messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","workflowRunId":"wfr_65b1f0c2a4","workflowUrl":"https://app.example.com/api/order","failedAt":1700000000000,"responseStatus":500,"responseBody":"out of memory"}`},
	{"DELETE /v2/messages", `{"cancelled":1}`},
	{"DELETE /v2/workflows/runs", `{"cancelled":1}`},
	{"DELETE /v2/dlq", `{"deleted":1}`},
	{"DELETE /v2/workflows/dlq", `{"deleted":1}`},
	{"POST /v2/dlq/retry", `{"responses":[{"messageId":"msg_26hZCxZCuWyyTWPmSVBrND","dlqId":"1700000000000-0"}]}`},
	{"POST /v2/workflows/dlq/restart", `{"workflowRuns":[{"workflowRunId":"wfr_65b1f0c2a5","workflowCreatedAt":1700000000000,"dlqId":"1700000000000-0"}]}`},
	{"POST /v2/workflows/dlq/resume", `{"workflowRuns":[{"workflowRunId":"wfr_65b1f0c2a5","workflowCreatedAt":1700000000000,"dlqId":"1700000000000-0"}]}`},
	{"DELETE /v2/bulkActions/act_17000000000008c1f0e2a9b3d", `{"actionId":"act_17000000000008c1f0e2a9b3d","kind":"cancel","state":"CANCELLED","total":100,"processed":40,"createdAt":1700000000000,"completedAt":1700000001000}`},
	{"POST /v2/keys/rotate", `{"current":"sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs","next":"sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r"}`},
	{"POST /v2/enqueue/orders/shops", `[{"messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","url":"https://a.example.com"}]`},
	{"POST /v2/schedules/https://api.example.com/report", `{"scheduleId":"nightly"}`},
	{"POST /v2/notify/paid", `[{"messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","workflowRunId":"wfr_65b1f0c2a4","workflowCreatedAt":1700000000000}]`},
}
