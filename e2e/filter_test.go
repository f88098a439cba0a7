package e2e

import (
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"posthaste"
)

// filter is a question to the log, in two languages: as the parameters of a
// query, and as a rule in plain code.
type filter struct {
	name   string // of the parameter
	query  url.Values
	passes func(logEntry, *publication) bool
}

// everything is the filter that filters nothing.
func everything() filter {
	return filter{query: url.Values{}, passes: func(logEntry, *publication) bool { return true }}
}

// filterBy returns a filter with one parameter, which may be repeated.
func filterBy(name string, passes func(logEntry, *publication) bool, values ...string) filter {
	return filter{name: name, query: url.Values{name: values}, passes: passes}
}

// and returns the filter that asks for both.
func (f filter) and(other filter) filter {
	query := cloneValues(f.query)
	maps.Copy(query, other.query)
	return filter{
		name:   f.name + " and " + other.name,
		query:  query,
		passes: func(e logEntry, p *publication) bool { return f.passes(e, p) && other.passes(e, p) },
	}
}

// apply returns the entries of the log that pass, in the log's order.
func (f filter) apply(log []logEntry, messages map[string]*publication) []logEntry {
	var passed []logEntry
	for _, entry := range log {
		if f.passes(entry, messages[entry.MessageID]) {
			passed = append(passed, entry)
		}
	}
	return passed
}

func (f filter) String() string { return f.query.Encode() }

// allFilters returns filters for every parameter of the log: values that many
// entries have, values that few have, several values, and values that none has.
func allFilters(c *corpus, log []logEntry, random *rand.Rand) []filter {
	return slices.Concat(
		messageFilters(log, random),
		stateFilters(),
		destinationFilters(c.hosts),
		publisherFilters(),
		dateFilters(log, random),
		filtersForNothing(),
	)
}

func messageFilters(log []logEntry, random *rand.Rand) []filter {
	ids := make([]string, 6)
	for i := range ids {
		ids[i] = pick(random, log).MessageID
	}
	with := func(ids ...string) func(logEntry, *publication) bool {
		return func(e logEntry, _ *publication) bool { return slices.Contains(ids, e.MessageID) }
	}
	return []filter{
		filterBy("messageId", with(ids[0]), ids[0]),
		filterBy("messageIds", with(ids...), ids...),
		filterBy("messageIds", with(ids[0], ids[1]), ids[0]+","+ids[1]),
	}
}

func stateFilters() []filter {
	in := func(states ...posthaste.State) func(logEntry, *publication) bool {
		return func(e logEntry, _ *publication) bool { return slices.Contains(states, e.State) }
	}
	var filters []filter
	for _, state := range posthaste.States {
		filters = append(filters, filterBy("state", in(state), string(state)))
	}
	return append(filters,
		filterBy("state", in(posthaste.StateActive, posthaste.StateRetry, posthaste.StateError), "IN_PROGRESS"),
		filterBy("state", in(posthaste.StateFailed, posthaste.StateCancelled), "failed", "canceled"),
	)
}

func destinationFilters(hosts []string) []filter {
	urls := []string{
		"http://" + hosts[0] + "/ok/invoices?year=2026&month=7",
		"http://" + hosts[1] + "/broken/orders",
	}
	toURL := func(urls ...string) func(logEntry, *publication) bool {
		return func(_ logEntry, p *publication) bool { return slices.Contains(urls, p.url) }
	}
	toHost := func(hosts ...string) func(logEntry, *publication) bool {
		return func(_ logEntry, p *publication) bool {
			host, _ := p.hostAndPath()
			name, _, _ := strings.Cut(host, ":")
			return slices.Contains(hosts, host) || slices.Contains(hosts, name)
		}
	}
	toPath := func(paths ...string) func(logEntry, *publication) bool {
		return func(_ logEntry, p *publication) bool {
			_, path := p.hostAndPath()
			return slices.Contains(paths, path)
		}
	}
	return []filter{
		filterBy("url", toURL(urls[0]), urls[0]),
		filterBy("url", toURL(urls...), urls...),
		filterBy("host", toHost(hosts[0]), hosts[0]),
		filterBy("host", toHost("127.0.0.1"), "127.0.0.1"),
		filterBy("host", toHost("localhost", hosts[1]), "LocalHost", hosts[1]),
		filterBy("path", toPath("/ok/invoices"), "/ok/invoices"),
		filterBy("path", toPath("/flaky/orders/new", "/rejected/"), "/flaky/orders/new,/rejected/"),
	}
}

func publisherFilters() []filter {
	labelled := func(labels ...string) func(logEntry, *publication) bool {
		return func(_ logEntry, p *publication) bool {
			return slices.ContainsFunc(p.labels, func(l string) bool { return slices.Contains(labels, l) })
		}
	}
	from := func(addresses ...string) func(logEntry, *publication) bool {
		return func(_ logEntry, p *publication) bool { return slices.Contains(addresses, p.callerIP) }
	}
	limitedBy := func(keys ...string) func(logEntry, *publication) bool {
		return func(_ logEntry, p *publication) bool { return slices.Contains(keys, p.flowKey) }
	}
	return []filter{
		filterBy("label", labelled("blue"), "blue"),
		filterBy("label", labelled("red", "two words"), "red", "two words"),
		filterBy("callerIp", from(corpusCallers[0]), corpusCallers[0]),
		{"callerIp", url.Values{"callerIP": corpusCallers[1:]}, from(corpusCallers[1:]...)}, // an older spelling
		filterBy("flowControlKey", limitedBy("tenant-1"), "tenant-1"),
		filterBy("flowControlKey", limitedBy("tenant-1", "tenant/2"), "tenant-1,tenant/2"),
	}
}

// dateFilters begin and end at times that entries have, which are included.
func dateFilters(log []logEntry, random *rand.Rand) []filter {
	third := len(log) / 3
	low, high := log[random.IntN(third)].Time, log[len(log)-1-random.IntN(third)].Time
	text := func(ms int64) string { return strconv.FormatInt(ms, 10) }
	return []filter{
		filterBy("fromDate", func(e logEntry, _ *publication) bool { return e.Time >= low }, text(low)),
		filterBy("fromDate", func(e logEntry, _ *publication) bool { return e.Time >= high }, text(high)),
		filterBy("toDate", func(e logEntry, _ *publication) bool { return e.Time <= high }, text(high)),
		filterBy("toDate", func(e logEntry, _ *publication) bool { return e.Time <= low }, text(low)),
	}
}

// filtersForNothing ask for what no entry has.
func filtersForNothing() []filter {
	none := func(logEntry, *publication) bool { return false }
	return []filter{
		filterBy("topicName", none, "nobody"),
		filterBy("scheduleId", none, "scd_nothing"),
		filterBy("queueName", none, "nowhere"),
		filterBy("messageId", none, "msg_1111111111111111111111"),
		filterBy("label", none, "blu"),
		filterBy("toDate", none, "1"),
	}
}

func cloneValues(values url.Values) url.Values {
	clone := make(url.Values, len(values))
	for name, list := range values {
		clone[name] = slices.Clone(list)
	}
	return clone
}
