package cli

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the commands print into testdata/golden")

// TestGolden prints what commands show of the same answers in a narrow and in a wide terminal.
// Read the difference after -update.
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
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	for _, command := range goldenCommands {
		var got bytes.Buffer
		for _, width := range []string{"80", "160"} {
			t.Setenv("COLUMNS", width)
			var out, err bytes.Buffer
			if code := run(append(strings.Fields(command), "--url="+server.URL), terminal{&out, &err}); code != exitOK {
				t.Errorf("%s: exit code %d: %s", command, code, &err)
			}
			got.WriteString("== " + width + " columns\n" + out.String())
			for line := range strings.Lines(out.String()) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); width == "80" && n > 80 && isTable(command) {
					t.Errorf("%s: a line of %d characters: %s", command, n, line)
				}
			}
		}
		file := filepath.Join("testdata", "golden", strings.NewReplacer(" ", "_", "/", "", ":", "").Replace(command)+".txt")
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if diff := cmp.Diff(string(want), got.String()); err != nil || diff != "" {
			t.Errorf("%s (-want +got): %v\n%s", command, err, diff)
		}
	}
}

// isTable reports whether a command prints lines that are to fit.
func isTable(command string) bool {
	return !strings.Contains(command, " show") && !strings.HasPrefix(command, "publish")
}

var goldenCommands = []string{
	"logs", "logs --by-message", "log-stats", "messages list", "messages show msg_26hZCxZCuWyyTWPmSVBrNB882AAA",
	"runs list", "runs show wfr_65b1f0c2a4", "dlq list", "dlq messages list", "actions list", "stats --days",
	"queues list", "queues show orders", "groups list", "groups show shops", "schedules list", "schedules show nightly",
	"schedules ticks 0_3_*_*_*", "flow list", "flow show tenant-7", "keys show",
	"publish shops", "trigger http://a.example.com", "notify paid",
}

const (
	goldenQueue    = `{"name":"orders","parallelism":4,"paused":true,"lag":12,"createdAt":1700000000000,"updatedAt":1700000001000}`
	goldenGroup    = `{"name":"shops","createdAt":1700000000000,"updatedAt":1700000000000,"endpoints":[{"name":"a","url":"https://a.example.com/webhooks/incoming/orders"},{"url":"https://b.example.com/webhooks/incoming/orders"}],"headers":{"Upstash-Retries":["5"]}}`
	goldenSchedule = `{"scheduleId":"nightly","cron":"CRON_TZ=UTC 30 3 * * 1-5","destination":"https://api.example.com/reports/daily?format=csv&region=eu-central","method":"POST","createdAt":1700000000000,"retries":3,"isPaused":false,"delay":60,"timeout":30000,"nextScheduleTime":1700000000000,"label":"report","body":"{}","header":{"Content-Type":["application/json"]}}`
	goldenFlow     = `{"flowControlKey":"tenant-7","waitListSize":3,"parallelismMax":5,"parallelismCount":2,"rateMax":100,"rateCount":40,"ratePeriod":60,"isPinnedParallelism":true,"isPinnedRate":false,"isPaused":false}`
	goldenLog      = `{"events":[
		{"time":1700000012400,"state":"DELIVERED","messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","method":"POST","url":"https://api.example.com/orders"},
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
	{"POST /v2/notify/paid", `[{"messageId":"msg_26hZCxZCuWyyTWPmSVBrNB","workflowRunId":"wfr_65b1f0c2a4","workflowCreatedAt":1700000000000}]`},
}
