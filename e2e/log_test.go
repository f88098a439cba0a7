package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	orderLatest   = "latestFirst"
	orderEarliest = "earliestFirst"
)

var logMessages = flag.Int("log-messages", 600, "how many messages the log test publishes before it reads the log; it publishes two thirds of that again meanwhile")

// otherToken is {"UserID":"other","Password":"secret"}.
const otherToken = "eyJVc2VySUQiOiJvdGhlciIsIlBhc3N3b3JkIjoic2VjcmV0In0="

// TestLog publishes messages of all kinds and compares the answers of the log
// with a naive evaluation of the same questions (contract, messages 2.10).
func TestLog(t *testing.T) {
	t.Parallel()
	random := newRandom(t)
	_, c := startServe(t, t.TempDir(),
		"--log-level", "warn", "--trusted-proxies", "127.0.0.1/32", "--users", "other:secret")
	corpus := fillLog(t, c, random)
	log := corpus.settle(t)
	t.Logf("%d messages, %d entries", len(corpus.messages), len(log))
	filters := allFilters(t, corpus, log, random)

	t.Run("one filter", func(t *testing.T) { compareAll(t, corpus, log, questionsOfOne(filters)) })
	t.Run("two filters", func(t *testing.T) {
		onceOnly(t) // the conformance suite combines them on both backends
		compareAll(t, corpus, log, questionsOfTwo(representatives(filters)))
	})
	t.Run("while entries are written", func(t *testing.T) { compareWhileWriting(t, corpus, log, filters, random) })
	t.Run("another user", func(t *testing.T) { compareOtherUser(t, corpus) })
}

// fillLog publishes the corpus, and a few messages of another user among them.
func fillLog(t *testing.T, c *client, random *rand.Rand) *corpus {
	t.Helper()
	first, second := newSink(t).host(), newSink(t).host()
	_, port, _ := strings.Cut(first, ":")
	corpus := newCorpus(t, c, first, second, "localhost:"+port)
	stranger := newCorpus(t, c.as(otherToken), first)
	for range 10 {
		if err := corpus.publish(t.Context(), random, *logMessages/10); err != nil {
			t.Fatal(err)
		}
		if err := stranger.publish(t.Context(), random, 16); err != nil {
			t.Fatal(err)
		}
	}
	return corpus
}

// question is a way to page through what passes a filter.
type question struct {
	filter filter
	order  string
	count  int // entries a page
	pages  int // that are read at most; 0 reads them all
}

func (q question) String() string {
	return fmt.Sprintf("%v order=%s count=%d", q.filter, q.order, q.count)
}

// questionsOfOne asks each filter, and none, in both orders: whole by large pages
// and the beginning by small ones.
func questionsOfOne(filters []filter) (questions []question) {
	for i, f := range append(filters, everything()) {
		one, other := bothOrders(i)
		questions = append(questions,
			question{f, one, 1000, 0}, question{f, one, 7, 12},
			question{f, other, 100, 0}, question{f, other, 1, 12})
	}
	return questions
}

// questionsOfTwo asks every pair of filters on different parameters, in both
// orders: one of them whole, the beginning of the other by small pages.
func questionsOfTwo(filters []filter) (questions []question) {
	small := []int{1, 7, 100}
	for i, f := range filters {
		for j, g := range filters[:i] {
			if f.name == g.name {
				continue
			}
			one, other := bothOrders(i + j)
			questions = append(questions,
				question{f.and(g), one, 1000, 0}, question{f.and(g), other, small[(i+j)%len(small)], 5})
		}
	}
	return questions
}

// bothOrders returns the orders, alternating with i which of them comes first.
func bothOrders(i int) (one, other string) {
	if i%2 == 0 {
		return orderLatest, orderEarliest
	}
	return orderEarliest, orderLatest
}

// compareAll asks the questions, several at a time, about a log that is at rest.
func compareAll(t *testing.T, c *corpus, log []logEntry, questions []question) {
	t.Helper()
	const parallel = 4
	answers := make([]string, len(questions))
	var working sync.WaitGroup
	for worker := range parallel {
		working.Go(func() {
			for i := worker; i < len(questions); i += parallel {
				answers[i] = compare(t.Context(), c, log, questions[i])
			}
		})
	}
	working.Wait()
	wrong := &problems{}
	for i, difference := range answers {
		if difference != "" {
			wrong.add("%v: %s", questions[i], difference)
		}
	}
	wrong.report(t)
	t.Logf("%d questions", len(questions))
}

// compare asks a question and says what is wrong with the answer.
func compare(ctx context.Context, c *corpus, log []logEntry, q question) string {
	want := q.filter.apply(log, c.messages)
	if q.order == orderLatest {
		slices.Reverse(want)
	}
	got, whole, err := q.ask(ctx, c.client)
	if err != nil {
		return err.Error()
	}
	if !whole {
		want = want[:min(len(got), len(want))]
	}
	return firstDifference(got, want)
}

// ask follows the cursors of a question and reports whether it got to the end.
func (q question) ask(ctx context.Context, c *client) (entries []logEntry, whole bool, err error) {
	query := cloneValues(q.filter.query)
	query.Set("order", q.order)
	query.Set("count", strconv.Itoa(q.count))
	for page := 1; ; page++ {
		answer, err := c.logs(ctx, query)
		if err != nil {
			return nil, false, err
		}
		if len(answer.Events) > q.count {
			return nil, false, fmt.Errorf("a page has %d entries", len(answer.Events))
		}
		entries = append(entries, answer.Events...)
		if answer.Cursor == "" {
			return entries, true, nil
		}
		if page == q.pages {
			return entries, false, nil
		}
		query.Set("cursor", answer.Cursor)
	}
}

// compareWhileWriting asks questions while messages are published. Whatever the
// order, an answer then holds the entries from the oldest one up to some moment
// after the question was asked: none of them is skipped, none repeated.
func compareWhileWriting(t *testing.T, c *corpus, before []logEntry, filters []filter, random *rand.Rand) {
	t.Helper()
	questions := questionsWhileWriting(filters)
	answers := make([][]logEntry, len(questions))
	failures := make([]error, len(questions))
	var writing, reading sync.WaitGroup
	var writingFailure error
	writing.Go(func() { writingFailure = c.publish(t.Context(), random, *logMessages*2/3) })
	for i, q := range questions {
		reading.Go(func() { answers[i], _, failures[i] = q.ask(t.Context(), c.client) })
	}
	writing.Wait()
	reading.Wait()
	if writingFailure != nil {
		t.Fatal(writingFailure)
	}
	after := c.settle(t)
	wrong := &problems{}
	for i, q := range questions {
		if failures[i] != nil {
			wrong.add("%v: %v", q, failures[i])
			continue
		}
		atLeast, atMost := q.filter.apply(before, c.messages), q.filter.apply(after, c.messages)
		if difference := differenceWhileWriting(q, answers[i], len(atLeast), atMost); difference != "" {
			wrong.add("%v: %s", q, difference)
		}
	}
	wrong.report(t)
}

// questionsWhileWriting are those of one filter, of every parameter that entries
// pass on their way to the end of the log.
func questionsWhileWriting(filters []filter) (questions []question) {
	const size = 50
	asked := map[string]bool{"fromDate": true, "toDate": true}
	for _, f := range append(filters, everything()) {
		if asked[f.name] {
			continue
		}
		asked[f.name] = true
		questions = append(questions, question{f, orderLatest, size, 0}, question{f, orderEarliest, size, 0})
	}
	return questions
}

// differenceWhileWriting compares an answer with what passes in the end. The
// answer has at least the entries that passed before.
func differenceWhileWriting(q question, got []logEntry, before int, after []logEntry) string {
	if q.order == orderLatest {
		slices.Reverse(got)
	}
	if len(got) < before {
		return fmt.Sprintf("%d entries, there were %d before", len(got), before)
	}
	return firstDifference(got, after[:min(len(got), len(after))])
}

// compareOtherUser asks a user for the messages of another one.
func compareOtherUser(t *testing.T, c *corpus) {
	t.Helper()
	var id string
	for id = range c.messages {
		break
	}
	page, err := c.client.as(otherToken).logs(t.Context(), url.Values{"messageId": {id}})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Events) != 0 || page.Cursor != "" {
		t.Errorf("another user sees %d entries of %s and the cursor %q, want none", len(page.Events), id, page.Cursor)
	}
}
