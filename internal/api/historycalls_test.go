package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// anyCall returns a random call. Few names are shared by many of them, so that they meet.
func (h *historian) anyCall() string {
	calls := []func() string{
		h.publish, h.publish, h.publish, h.publish, h.enqueue, h.enqueue, h.batch, h.schedule,
		h.group, h.group, h.queue, h.queue, h.flowKey, h.flowKey, h.changeSchedule,
		h.cancel, h.cancelMany, h.log, h.log, h.letter, h.letters, h.letters,
		h.trigger, h.trigger, h.trigger, h.step, h.wait, h.notify, h.endRun, h.cancelRuns,
		h.failedRun, h.failedRuns, h.runLog, h.read,
	}
	return calls[h.rng.IntN(len(calls))]()
}

func (h *historian) chance(n int) bool { return h.rng.IntN(n) == 0 }

func (h *historian) one(of ...string) string { return of[h.rng.IntN(len(of))] }

// odd are names that somebody may try.
var odd = []string{
	"a\x00b", "\xff", "é", "a b", "a/b", "a%b", ".", strings.Repeat("n", 90), "'", `\`, "{}", "*",
}

// name returns one of a few names, and now and then an odd one.
func (h *historian) name(kind string) string {
	if h.chance(20) {
		return h.one(odd...)
	}
	return fmt.Sprintf("%s%d", kind, h.rng.IntN(3))
}

// known returns the name of something that was told of, or something that was not.
func (h *historian) known(kind, unknown string) string {
	n := h.names.count[kind]
	if n == 0 || h.chance(12) {
		return unknown
	}
	return fmt.Sprintf("{%s%d}", kind, n-h.rng.IntN(min(n, 30)))
}

// escape writes a text as a segment of a path.
func escape(text string) string { return url.PathEscape(text) }

func (h *historian) message() string {
	if h.chance(20) {
		return escape(h.one(odd...))
	}
	return h.known("message", "msg_1111111111111111111111")
}

func (h *historian) letterID() string {
	if h.chance(20) {
		return escape(h.one(odd...))
	}
	return h.known("letter", "1-1")
}

func (h *historian) runID() string {
	if h.chance(20) {
		return h.one(odd...)
	}
	return fmt.Sprintf("r%d", h.rng.IntN(5))
}

// url returns one whose destination does what its path says.
func (h *historian) url() string {
	if h.chance(30) {
		return h.one("ftp://a.example/", "https://169.254.169.254/", "https://", "nobody", "https://a.example/%00")
	}
	path := h.one("in", "in", "in?x=1", "fail/500", "fail/500", "fail/404", "down", "page", "cut")
	return fmt.Sprintf("https://%s/%s", h.one("a.example", "b.example", "c.example:8080"), path)
}

// destination is where a publication goes to.
func (h *historian) destination() string {
	if h.chance(6) {
		return escape(h.name("g"))
	}
	return h.url()
}

// option is a header that a publication may have, once in so many times.
type option struct {
	once   int
	header string
	value  func(h *historian) string
}

func among(values ...string) func(h *historian) string {
	return func(h *historian) string { return h.one(values...) }
}

func below(n int, unit string) func(h *historian) string {
	return func(h *historian) string { return fmt.Sprint(h.rng.IntN(n), unit) }
}

var options = []option{
	{2, "Retries", among("0", "1", "2", "3", "11", "-1", "x")},
	{2, "Retry-Delay", among("1000", "1000 * (1 + retried)", "pow(2, retried) * 100", "1 +")},
	{4, "Delay", below(60, "s")},
	{40, "Delay", among("25h", "soon", "")},
	{8, "Not-Before", func(h *historian) string { return fmt.Sprint(time.Now().Unix() + int64(h.rng.IntN(60)) - 10) }},
	{3, "Label", func(h *historian) string { return h.one("l0", "l1", "l0,l1", "l2", "é", "l\xff") }},
	{5, "Method", among("GET", "PUT", "patch", "HEAD")},
	{9, "Timeout", among("30s", "1m", "0s")},
	{4, "Forward-X-Test", among("1", "two", "é")},
	{6, "Deduplication-Id", func(h *historian) string { return h.one("d0", "d1", "d2", "é", "") }},
	{9, "Content-Based-Deduplication", among("true", "true", "false", "yes")},
	{5, "Callback", among("https://a.example/told", "https://b.example/fail/500", "nowhere")},
	{5, "Failure-Callback", among("https://a.example/failed", "https://b.example/down")},
	{12, "Callback-Retries", among("0", "1", "x")},
	{9, "Redact-Fields", among("body", "header", "body,header[X-Test]", "feet")},
}

// flow limits what is sent under a key. What is in a queue has a key of that queue alone:
// which of two lanes gets what is free under a key is for the store to choose.
func (h *historian) flow(key string) string {
	value := h.one("parallelism=1", "parallelism=2", "rate=1, period=10s", "rate=2, period=3s, parallelism=1", "rate=0", "x")
	return "Upstash-Flow-Control-Key: " + key + "\nUpstash-Flow-Control-Value: " + value + "\n"
}

// headers returns random options, as headers.
func (h *historian) headers() string {
	var text strings.Builder
	for _, o := range options {
		if h.chance(o.once) {
			value := strings.Map(func(r rune) rune { // a header has no others
				if r < ' ' {
					return '?'
				}
				return r
			}, o.value(h))
			fmt.Fprintf(&text, "%s%s: %s\n", h.one("Upstash-", "Upstash-", "Upstash-", "Service-"), o.header, value)
		}
	}
	return text.String() + h.token()
}

// token lets few requests be somebody else's, or nobody's.
func (h *historian) token() string {
	if !h.chance(15) {
		return ""
	}
	return "Authorization: Bearer " + h.one("other", "other", "other", "reader", "nobody") + "\n"
}

func (h *historian) body() string {
	if h.chance(20) {
		return h.one("", "\xff\xfe", "a\x00b", "[", strings.Repeat("long", 60))
	}
	return fmt.Sprintf("body %d", h.rng.IntN(1000))
}

func (h *historian) request(method, path, headers, body string) string {
	return fmt.Sprintf("%s /v2/%s HTTP/1.1\n%s\n%s", method, path, headers, body)
}

func (h *historian) publish() string {
	headers := h.headers()
	if h.chance(4) {
		headers += h.flow(h.one("k0", "k1", "k/2", "é"))
	}
	return h.request("POST", "publish/"+h.destination(), headers, h.body())
}

func (h *historian) enqueue() string {
	headers, queue := h.headers(), h.name("q")
	if h.chance(4) && !strings.ContainsAny(queue, "\x00") {
		headers += h.flow("of-" + escape(queue))
	}
	return h.request("POST", "enqueue/"+escape(queue)+"/"+h.destination(), headers, h.body())
}

func (h *historian) batch() string {
	items := make([]map[string]any, 1+h.rng.IntN(4))
	for i := range items {
		headers := map[string]string{}
		for _, o := range options {
			if h.chance(2 * o.once) {
				headers["Upstash-"+o.header] = o.value(h)
			}
		}
		items[i] = map[string]any{"destination": h.destination(), "body": fmt.Sprint("item ", h.rng.IntN(1000)), "headers": headers}
		if h.chance(3) {
			items[i]["queue"] = h.name("q")
		}
	}
	return h.request("POST", "batch", h.token(), asJSON(items))
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only texts and numbers are written here
	}
	return string(text)
}

func (h *historian) schedule() string {
	headers := h.headers() +
		"Upstash-Cron: " + h.one("* * * * *", "*/2 * * * *", "CRON_TZ=Europe/Berlin 1 1 * * *", "* * * *") + "\n" +
		"Upstash-Schedule-Id: " + h.one("s0", "s1", "s2", "é", "s 3") + "\n"
	if h.chance(4) {
		headers += "Upstash-Queue-Name: q0\n"
	}
	return h.request("POST", "schedules/"+h.destination(), headers, h.body())
}

func (h *historian) changeSchedule() string {
	path := "schedules/" + escape(h.name("s"))
	switch h.rng.IntN(4) {
	case 0:
		return h.request("DELETE", path, h.token(), "")
	case 1:
		return h.request("GET", path, h.token(), "")
	default:
		return h.request(h.one("POST", "PATCH"), path+"/"+h.one("pause", "resume"), h.token(), "")
	}
}

func (h *historian) group() string {
	path := "topics/" + escape(h.name("g"))
	endpoints := make([]map[string]string, 1+h.rng.IntN(2))
	for i := range endpoints {
		endpoints[i] = map[string]string{"url": h.url()}
		if h.chance(3) {
			endpoints[i]["name"] = h.name("e")
		}
	}
	body := asJSON(map[string]any{"endpoints": endpoints})
	switch h.rng.IntN(8) {
	case 0:
		return h.request("DELETE", path, h.token(), "")
	case 1:
		return h.request("DELETE", path+"/endpoints", h.token(), body)
	case 2:
		return h.request("PATCH", path, h.token(), asJSON(map[string]any{"headers": map[string]string{"Upstash-Retries": h.one("0", "1", "x"), "Upstash-Label": h.one("l0", "of-group")}}))
	case 3:
		return h.request("GET", path, h.token(), "")
	default:
		return h.request("POST", path+"/endpoints", h.token(), body)
	}
}

func (h *historian) queue() string {
	name := h.name("q")
	path := "queues/" + escape(name)
	switch h.rng.IntN(7) {
	case 0:
		return h.request("DELETE", path, h.token(), "")
	case 1:
		return h.request("POST", path+"/pause", h.token(), "")
	case 2, 3:
		return h.request("POST", path+"/resume", h.token(), "")
	case 4:
		return h.request("GET", path, h.token(), "")
	default:
		return h.request("POST", "queues", h.token(), asJSON(map[string]any{"queueName": name, "parallelism": h.rng.IntN(4)}))
	}
}

func (h *historian) flowKey() string {
	key := h.one("k0", "k1", "k/2", "%C3%A9", "of-q0", "of-q1")
	if h.chance(12) {
		key = escape(h.one(odd...))
	}
	switch h.rng.IntN(7) {
	case 6:
		return h.request("DELETE", "flowControl/"+key, h.token(), "")
	case 0:
		return h.request("GET", "flowControl/"+key, h.token(), "")
	case 1:
		return h.request("POST", "flowControl/"+key+"/pause", h.token(), "")
	case 2, 3:
		return h.request("POST", "flowControl/"+key+"/"+h.one("resume", "resume", "reset", "resetRate", "turn"), h.token(), "")
	case 4:
		return h.request("POST", "flowControl/"+key+"/pin?"+h.one("parallelism=1", "rate=1&period=10", "rate=2", "period=5", "parallelism=0", ""), h.token(), "")
	default:
		return h.request("POST", "flowControl/"+key+"/unpin?"+h.one("parallelism=true", "rate=true", "rate=1"), h.token(), "")
	}
}

// read reads a list as a whole.
func (h *historian) read() string {
	return h.request("GET", h.one("queues", "flowControl", "flowControl?search=k", "topics", "schedules", "bulkActions", "globalParallelism",
		"workflows/bulkActions", "bulkActions/{action1}", "bulkActions/"+escape(h.one(odd...)), "ticks", "ticks?cron=*/7+*+*+*+*", "keys",
		"workflows/hooks/ann/r0/"+escape(h.name("v")), "nothing"), h.token(), "")
}
