package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// logsScenario compares Posthaste with itself: a server with a short log, and one
// with a long one. Both are asked for the same pages in turn, by each filter alone
// and by pairs of them, frequent and rare, newest first, oldest first and from the
// middle.
type logsScenario struct{}

func (logsScenario) name() string { return "logs" }

const (
	shortLog    = 100_000 // entries, or a tenth of the long log if that is less
	leastLog    = 10_000  // entries of the long log
	logSpan     = 3 * 24 * time.Hour
	entriesEach = 3.17 // of a message of a history, on average
	logWarmUps  = 2    // answers of a page that do not count
)

func (s logsScenario) run(ctx context.Context, l *lab) (Result, error) {
	short, long := &logStore{condition: condition{name: "short"}}, &logStore{condition: condition{name: "long"}}
	sides := []*logStore{short, long}
	fewer := min(shortLog, l.options.Entries/10)
	for i, entries := range []int{fewer, l.options.Entries} {
		defer sides[i].close()
		if err := sides[i].openLog(ctx, l, entries); err != nil {
			return Result{}, err
		}
	}
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		for _, page := range logPages(fewer) {
			for _, side := range sides {
				if err := side.ask(ctx, l, page); err != nil {
					return Result{}, fmt.Errorf("%s, %s: %w%s", side.name, page.name, err, side.server.lastWords())
				}
			}
		}
	}
	for _, side := range sides {
		side.rounds = append(side.rounds, side.server.memory())
	}
	return Result{Scenario: s.name(), Baseline: short.name, Subject: long.name, Measures: compare(short.rounds, long.rounds)}, nil
}

// logStore is a server with a log.
type logStore struct {
	condition
	middle time.Time // of the history
}

// openLog writes a history of so many entries and starts a server on it.
func (c *logStore) openLog(ctx context.Context, l *lab, entries int) (err error) {
	if c.dir, err = l.place(); err != nil {
		return err
	}
	h := &history{user: benchingUser, size: l.options.Size, until: time.Now(), span: logSpan, total: int(float64(entries) / entriesEach)}
	c.middle = h.until.Add(-logSpan / 2)
	data := filepath.Join(c.dir, dataDir)
	began := time.Now()
	if err := h.write(ctx, data); err != nil {
		return fmt.Errorf("write a log: %w", err)
	}
	if err := compact(ctx, data); err != nil {
		return err
	}
	size, err := directorySize(data)
	if err != nil {
		return err
	}
	l.note("  %s: stored %d messages in %s", c.name, h.total, time.Since(began).Round(time.Second))
	c.server, err = l.start(ctx, l.server(), c.dir)
	if err == nil {
		c.rounds = append(c.rounds, []reading{
			measured("disk, compacted", "B/message", float64(size)/float64(h.total)),
			measured("start", "ms", milliseconds(c.server.readyAfter)),
		})
	}
	return err
}

// logPage is a page of the log to ask for.
type logPage struct {
	name   string
	params string
	count  int
	middle bool // from the middle of the history on, and not from its end
}

// logFilters are the filters that are asked for, and how many entries of a page: so
// many that a short log of shortLog entries has them before its middle, too.
var logFilters = []struct {
	name, params string
	count        int
}{
	{"all", "", 1000},
	{"state, most", "state=DELIVERED", 1000},
	{"state, some", "state=ERROR", 1000},
	{"url", "url=https://host-0.example.com/hook", 1000},
	{"host", "host=host-1.example.com", 1000},
	{"path", "path=/hook", 1000},
	{"label", "label=label-0", 1000},
	{"queue", "queueName=queue-0", 1000},
	{"group", "topicName=group-0", 1000},
	{"schedule", "scheduleId=schedule-0", 500},
	{"caller", "callerIp=10.0.0.7", 300},
	{"flow-control key", "flowControlKey=key-0", 1000},
	{"two urls", "url=https://host-0.example.com/hook&url=https://host-2.example.com/hook", 1000},
	{"url and state", "url=https://host-0.example.com/hook&state=ERROR", 100},
	{"label and state", "label=label-0&state=DELIVERED", 1000},
	{"queue and label", "queueName=queue-0&label=label-0", 100},
	{"url and caller", "url=https://host-0.example.com/hook&callerIp=10.0.0.7", 50},
	{"rare url", "url=https://rare.example.com/hook", 100},
	{"rare label", "label=rare", 100},
	{"rare label and state", "label=rare&state=DELIVERED", 40},
	{"nothing in common", "url=https://rare.example.com/hook&host=host-0.example.com", 0},
}

// logPages returns the pages of a round, for a short log of so many entries.
func logPages(short int) []logPage {
	var pages []logPage
	for _, f := range logFilters {
		if f.count > 0 {
			f.count = max(f.count*short/shortLog, 1)
		}
		pages = append(pages,
			logPage{f.name, f.params, f.count, false},
			logPage{f.name + ", oldest first", f.params + "&order=earliestFirst", f.count, false},
			logPage{f.name + ", from the middle", f.params, f.count, true})
	}
	return pages
}

// ask asks for a page several times and notes how long an answer takes.
func (c *logStore) ask(ctx context.Context, l *lab, page logPage) error {
	params, err := url.ParseQuery(page.params)
	if err != nil {
		return err
	}
	params.Set("count", strconv.Itoa(max(page.count, 1)))
	if page.middle {
		params.Set("toDate", strconv.FormatInt(c.middle.UnixMilli(), 10))
	}
	const answers = 5
	var took []time.Duration
	for i := range logWarmUps + answers {
		began := time.Now()
		n, err := askLog(ctx, c.server.host, l.token, params)
		if err != nil {
			return err
		}
		if n > page.count {
			return fmt.Errorf("the page has %d entries, more than %d", n, page.count)
		}
		if i >= logWarmUps {
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	c.rounds = append(c.rounds, []reading{measured(page.name, "ms", milliseconds(quantile(took, 0.5)))})
	return nil
}

// askLog reads a page of the log and returns how many entries it has.
func askLog(ctx context.Context, host, token string, params url.Values) (entries int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/v2/logs?"+params.Encode(), nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, refusal(response)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	var page struct {
		Events []struct{} `json:"events"`
	}
	err = json.Unmarshal(text, &page)
	return len(page.Events), err
}
