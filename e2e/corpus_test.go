package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// publication is a message as its publisher knows it.
type publication struct {
	url      string
	queue    string // that it goes through, if any
	group    string // that it is published to, if any
	header   map[string]string
	labels   []string
	flowKey  string
	callerIP string
	fate     fate
}

// fate is what becomes of a message.
type fate struct {
	answer string // the sink's
	header map[string]string
	cancel bool
	life   string // the states of its log entries, in order
}

// fates are all kinds of lives that a message can have.
var fates = []fate{
	{answer: answerOK, life: "CREATED ACTIVE DELIVERED"},
	{answer: answerOK, header: map[string]string{"Upstash-Delay": "1s"}, life: "CREATED ACTIVE DELIVERED"},
	{answer: answerFlaky, header: map[string]string{"Upstash-Retry-Delay": "1"},
		life: "CREATED ACTIVE ERROR RETRY ACTIVE DELIVERED"},
	{answer: answerBroken, header: map[string]string{"Upstash-Retries": "0"}, life: "CREATED ACTIVE ERROR FAILED"},
	{answer: answerBroken, header: map[string]string{"Upstash-Retries": "2", "Upstash-Retry-Delay": "1"},
		life: "CREATED ACTIVE ERROR RETRY ACTIVE ERROR RETRY ACTIVE ERROR FAILED"},
	{answer: answerRejected, life: "CREATED ACTIVE ERROR FAILED"},
	{answer: answerOK, header: map[string]string{"Upstash-Delay": "1h"}, life: "CREATED"},
	{answer: answerOK, header: map[string]string{"Upstash-Delay": "1h"}, cancel: true,
		life: "CREATED CANCEL_REQUESTED CANCELLED"},
}

// The values from which publications are put together.
var (
	corpusPaths    = []string{"/orders", "/orders/new", "/", "/invoices?year=2026&month=7", "/invoices?year=2025"}
	corpusLabels   = [][]string{nil, nil, {"blue"}, {"red"}, {"blue", "red"}, {"green", "two words"}}
	corpusFlowKeys = []string{"", "", "tenant-1", "tenant/2"}
	corpusCallers  = []string{"203.0.113.1", "203.0.113.2", "2001:db8::7"}
	corpusQueues   = []string{"", "", "", "mail", "print"}
	corpusGroups   = []string{"", "", "", "", "customers", "everybody"}
)

// newPublication makes a publication of random kind to one of the hosts, or to a
// URL group.
func newPublication(random *rand.Rand, hosts []string) *publication {
	p := &publication{
		labels:   pick(random, corpusLabels),
		flowKey:  pick(random, corpusFlowKeys),
		callerIP: pick(random, corpusCallers),
		fate:     pick(random, fates),
	}
	if p.fate.answer == answerOK {
		p.group = pick(random, corpusGroups)
	}
	if p.group == "" {
		p.queue = pick(random, corpusQueues)
		p.url = "http://" + pick(random, hosts) + "/" + p.fate.answer + pick(random, corpusPaths)
	}
	p.header = p.controls()
	return p
}

func pick[T any](random *rand.Rand, values []T) T { return values[random.IntN(len(values))] }

// controls returns the headers of the request that publishes it.
func (p *publication) controls() map[string]string {
	header := map[string]string{"Upstash-Method": "POST", "X-Forwarded-For": p.callerIP}
	for name, value := range p.fate.header {
		header[name] = value
	}
	if len(p.labels) > 0 {
		header["Upstash-Label"] = strings.Join(p.labels, ",")
	}
	if p.flowKey != "" {
		header["Upstash-Flow-Control-Key"] = p.flowKey
		header["Upstash-Flow-Control-Value"] = "parallelism=20"
	}
	return header
}

// send publishes it and, if that is its fate, cancels what came of it.
func (p *publication) send(ctx context.Context, c *client) ([]receipt, error) {
	receipts, err := p.publish(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("publish %+v: %w", *p, err)
	}
	if !p.fate.cancel {
		return receipts, nil
	}
	for _, receipt := range receipts {
		if err := c.cancel(ctx, receipt.MessageID); err != nil {
			return nil, fmt.Errorf("cancel %s: %w", receipt.MessageID, err)
		}
	}
	return receipts, nil
}

func (p *publication) publish(ctx context.Context, c *client) ([]receipt, error) {
	const body = "hello"
	if p.group != "" {
		return c.publishToGroup(ctx, p.group, p.header, body)
	}
	if p.queue != "" {
		id, err := c.enqueue(ctx, p.queue, p.url, p.header, body)
		return []receipt{{id, p.url}}, err
	}
	id, err := c.publish(ctx, p.url, p.header, body)
	return []receipt{{id, p.url}}, err
}

// corpus is what a user published on one server.
type corpus struct {
	client *client
	hosts  []string

	mu       sync.Mutex
	messages map[string]*publication // by id; one for each endpoint of a group
	entries  int                     // that the log will have in the end
}

// newCorpus makes the queues and URL groups that publications use.
func newCorpus(t *testing.T, c *client, hosts ...string) *corpus {
	t.Helper()
	const parallelism = 10 // of a queue; with less, the queues would be what the test waits for
	var urls []string
	for i, host := range hosts {
		urls = append(urls, fmt.Sprintf("http://%s/ok/customers/%d", host, i))
	}
	for _, err := range []error{
		c.putQueue(t.Context(), "mail", parallelism),
		c.putQueue(t.Context(), "print", parallelism),
		c.addEndpoints(t.Context(), "customers", urls[0]),
		c.addEndpoints(t.Context(), "everybody", urls...),
	} {
		if err != nil {
			t.Fatalf("make queues and URL groups: %v", err)
		}
	}
	return &corpus{client: c, hosts: hosts, messages: make(map[string]*publication)}
}

// publish publishes a number of random messages, several at a time.
func (c *corpus) publish(ctx context.Context, random *rand.Rand, count int) error {
	const parallel = 8
	var working sync.WaitGroup
	failures := make([]error, parallel)
	for i := range parallel {
		own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		working.Go(func() {
			for range count / parallel {
				if failures[i] = c.publishOne(ctx, own); failures[i] != nil {
					return
				}
			}
		})
	}
	working.Wait()
	return errors.Join(failures...)
}

func (c *corpus) publishOne(ctx context.Context, random *rand.Rand) error {
	p := newPublication(random, c.hosts)
	receipts, err := p.send(ctx, c.client)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, receipt := range receipts {
		message := *p
		message.url = receipt.URL
		c.messages[receipt.MessageID] = &message
		c.entries += len(strings.Fields(p.fate.life))
	}
	return nil
}

// settle waits until nothing more will happen to the messages, and returns the
// log. It has every entry there must be, and no other.
func (c *corpus) settle(t *testing.T) []logEntry {
	t.Helper()
	const pause = 50 * time.Millisecond
	f := newFollower()
	for progress := time.Now(); len(f.entries) < c.entries; {
		before := len(f.entries)
		if _, err := f.read(t.Context(), c.client); err != nil {
			t.Fatalf("read the log: %v", err)
		}
		switch {
		case len(f.entries) > before:
			progress = time.Now()
		case time.Since(progress) > patience:
			t.Fatalf("the log has %d entries and grows no more, want %d", len(f.entries), c.entries)
		default:
			time.Sleep(pause)
		}
	}
	c.checkLives(t, f.entries)
	return f.entries
}

// checkLives fails the test unless the log tells of each message what became of
// it, and of no other message.
func (c *corpus) checkLives(t *testing.T, log []logEntry) {
	t.Helper()
	wrong := &problems{}
	lives := byMessage(log)
	for id, life := range lives {
		p := c.messages[id]
		if p == nil {
			wrong.add("the log tells of %s, which was not published", id)
		} else if got := states(life); got != p.fate.life {
			wrong.add("the life of %s is %s, want %s", id, got, p.fate.life)
		}
	}
	if len(lives) != len(c.messages) {
		wrong.add("the log tells of %d messages, %d were published", len(lives), len(c.messages))
	}
	wrong.report(t)
}

// states returns the states of a life as one text.
func states(life []logEntry) string {
	texts := make([]string, len(life))
	for i, entry := range life {
		texts[i] = string(entry.State)
	}
	return strings.Join(texts, " ")
}

// hostAndPath takes the URL of a publication apart. The rule is written here a
// second time on purpose: the filters are judged by it.
func (p *publication) hostAndPath() (host, path string) {
	rest := strings.TrimPrefix(p.url, "http://")
	host, path, _ = strings.Cut(rest, "/")
	path, _, _ = strings.Cut("/"+path, "?")
	return host, path
}
