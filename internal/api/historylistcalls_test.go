package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

func (h *historian) cancel() string {
	if h.chance(5) {
		return h.request("POST", "messages/"+h.message()+"/retry", h.token(), "")
	}
	return h.request(h.one("DELETE", "DELETE", "GET"), "messages/"+h.message(), h.token(), "")
}

// filter returns parameters that select messages of any list.
func (h *historian) filter(more ...func() string) string {
	chosen := h.someOf([]func() string{
		func() string { return "label=" + h.one("l0", "l1", "%C3%A9", "x%00") },
		func() string { return "url=" + url.QueryEscape(h.url()) },
		func() string { return "queueName=" + url.QueryEscape(h.name("q")) },
		func() string { return "topicName=" + url.QueryEscape(h.name("g")) },
		func() string { return "scheduleId=" + url.QueryEscape(h.name("s")) },
		func() string {
			return "flowControlKey=" + url.QueryEscape(h.one("k0", "k1", "k/2", "of-q0", "\x00", "\xff"))
		},
		func() string { return "callerIp=" + h.one("192.0.2.1", "192.0.2.2", "%00") },
	}, more)
	if h.chance(40) {
		chosen = append(chosen, h.one("nonsense=1", "count=0", "count=x", "label=", "label=a%zz", "order=any"))
	}
	return strings.Join(chosen, "&")
}

// someOf returns none, one or two of the filters, which have dates among them.
func (h *historian) someOf(filters, more []func() string) (chosen []string) {
	lately := func() int64 { return time.Now().UnixMilli() - int64(h.rng.IntN(100_000)) }
	all := slices.Concat(filters, []func() string{
		func() string { return fmt.Sprintf("fromDate=%d", lately()) },
		func() string { return fmt.Sprintf("toDate=%d", lately()) },
	}, more)
	for range h.rng.IntN(3) {
		chosen = append(chosen, all[h.rng.IntN(len(all))]())
	}
	return chosen
}

func (h *historian) counted(most int) string { return fmt.Sprintf("&count=%d", 1+h.rng.IntN(most)) }

// cancelMany cancels all messages that match: which of them if not all is for the store to
// choose.
func (h *historian) cancelMany() string {
	if h.chance(4) {
		return h.request("DELETE", "messages", h.token(), asJSON(map[string]any{"messageIds": []string{h.message(), h.message()}}))
	}
	filter := h.filter()
	if filter == "" {
		filter = "label=l0"
	}
	return h.request("DELETE", "messages?"+filter+h.one("", "&count=1000", "&async=true"), h.token(), "")
}

func (h *historian) log() string {
	filter := h.filter(
		func() string {
			return "state=" + h.one("CREATED", "active", "ERROR", "DELIVERED", "in_progress", "LOST")
		},
		func() string { return "messageId=" + h.message() },
		func() string { return "host=" + h.one("a.example", "b.example", "c.example", "c.example:8080", "%00") },
		func() string { return "path=" + h.one("/in", "/fail/500", "in", "%00", "%FF") },
	)
	return get(h.one("logs", "events") + "?" + filter + h.counted(9) + h.one("", "&order=earliestFirst"))
}

func (h *historian) overrides() string {
	return h.one("", "", "Upstash-Retries: 0\n", "Upstash-Delay: 5s\n", "Upstash-Method: PUT\n", "Upstash-Flow-Control-Key: k0\n", "Upstash-Retries: 12\n") + h.token()
}

func (h *historian) letter() string {
	id := h.letterID()
	switch h.rng.IntN(4) {
	case 0:
		return h.request("GET", "dlq/"+id, h.token(), "")
	case 1:
		return h.request("DELETE", "dlq/"+id, h.token(), "")
	default:
		return h.request("POST", "dlq/retry/"+id, h.overrides(), "")
	}
}

func (h *historian) letters() string {
	filter := h.filter(
		func() string { return "responseStatus=" + h.one("500", "404", "0", "x") },
		func() string { return "dlqIds=" + h.letterID() },
		func() string { return "messageId=" + h.message() },
	)
	switch h.rng.IntN(5) {
	case 0:
		return h.request("DELETE", "dlq?"+filter+h.one(h.counted(3), "&async=true"), h.token(), "")
	case 1, 2:
		return h.request("POST", "dlq/retry?"+filter+h.one(h.counted(3), h.counted(3), "&async=true"), h.overrides(), "")
	default:
		return get("dlq?" + filter + h.counted(5) + h.one("", "&order=earliestFirst"))
	}
}
