package e2e

import (
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

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
func allFilters(t *testing.T, c *corpus, log []logEntry, random *rand.Rand) []filter {
	t.Helper()
	filters := slices.Concat(
		messageFilters(log, random),
		stateFilters(),
		destinationFilters(c.hosts),
		publisherFilters(),
		laneFilters(),
		dateFilters(log, random),
	)
	for _, f := range filters {
		if len(f.apply(log, c.messages)) == 0 {
			t.Errorf("%v would test nothing: no entry passes it", f)
		}
	}
	return append(filters, filtersForNothing()...)
}

// representatives returns the first two filters of each parameter: few enough to
// ask every pair of them.
func representatives(filters []filter) (chosen []filter) {
	taken := make(map[string]int)
	for _, f := range filters {
		if taken[f.name]++; taken[f.name] <= 2 {
			chosen = append(chosen, f)
		}
	}
	return chosen
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
	filters := []filter{
		filterBy("state", in(posthaste.StateActive, posthaste.StateRetry, posthaste.StateError), "IN_PROGRESS"),
		filterBy("state", in(posthaste.StateFailed, posthaste.StateCancelled), "failed", "canceled"),
	}
	for _, state := range posthaste.States {
		filters = append(filters, filterBy("state", in(state), string(state)))
	}
	return filters
}

func destinationFilters(hosts []string) []filter {
	urls := []string{
		"http://" + hosts[0] + "/ok/invoices?year=2026&month=7",
		"http://" + hosts[1] + "/broken/orders",
	}
	toURL := passesOne(func(p *publication) string { return p.url })
	toHost := func(hosts ...string) func(logEntry, *publication) bool {
		return func(_ logEntry, p *publication) bool {
			host, _ := p.hostAndPath()
			name, _, _ := strings.Cut(host, ":")
			return slices.Contains(hosts, host) || slices.Contains(hosts, name)
		}
	}
	toPath := passesOne(func(p *publication) string {
		_, path := p.hostAndPath()
		return path
	})
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
	from := passesOne(func(p *publication) string { return p.callerIP })
	return []filter{
		filterBy("label", labelled("blue"), "blue"),
		filterBy("label", labelled("red", "two words"), "red", "two words"),
		filterBy("callerIp", from(corpusCallers[0]), corpusCallers[0]),
		{"callerIp", url.Values{"callerIP": corpusCallers[1:]}, from(corpusCallers[1:]...)}, // an older spelling
	}
}

func laneFilters() []filter {
	through := passesOne(func(p *publication) string { return p.queue })
	to := passesOne(func(p *publication) string { return p.group })
	under := passesOne(func(p *publication) string { return p.flowKey })
	return []filter{
		filterBy("queueName", through("mail"), "mail"),
		filterBy("queueName", through("mail", "print"), "mail", "print"),
		filterBy("topicName", to("customers"), "customers"),
		filterBy("topicName", to("customers", "everybody"), "customers,everybody"),
		filterBy("flowControlKey", under("tenant-1"), "tenant-1"),
		filterBy("flowControlKey", under("tenant-1", "tenant/2"), "tenant-1,tenant/2"),
	}
}

// passesOne makes rules that a property of a message is one of some values.
func passesOne(property func(*publication) string) func(values ...string) func(logEntry, *publication) bool {
	return func(values ...string) func(logEntry, *publication) bool {
		return func(_ logEntry, p *publication) bool { return slices.Contains(values, property(p)) }
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
		filterBy("scheduleId", none, "scd_nothing"),
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
