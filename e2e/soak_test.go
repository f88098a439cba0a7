package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	soakTime  = flag.Duration("soak", 0, "how long the soak test keeps a server under load; 0 leaves it out")
	soakPause = flag.Duration("soak-pause", 20*time.Millisecond, "how long each of its eight publishers that use no queue waits after a message")
)

// TestSoak keeps a server under a mixed load and then looks at what has grown that
// should not: goroutines, memory and file handles while it was loaded, and once it rests
// again; the disk for each message. Nothing that was acknowledged may be missing. It runs
// when it is given a time, as make soak does:
//
//	make build
//	POSTHASTE_E2E_BINARY=$PWD/bin/posthaste go test -run TestSoak -timeout 0 -v ./e2e -soak=4h
func TestSoak(t *testing.T) {
	if *soakTime == 0 {
		t.Skip("takes a time: give -soak 10m")
	}
	random := newRandom(t)
	_, c := startServe(t, t.TempDir(), "--log-level", "error")
	k := &soak{client: c, sink: newSink(t), workflow: newQuickWorkflow(t), acknowledged: map[string]bool{}}
	k.warmUp(t, random)
	resting := k.sample(t)
	samples := k.loadFor(t, random, *soakTime)
	k.settle(t)
	rested := k.sample(t)
	k.checkDelivered(t)
	t.Logf("at rest before: %v\nat rest after:  %v", resting, rested)
	t.Logf("%d requests were answered 503", k.turnedAway.Load())
	second, last := quarter(samples, 1), quarter(samples, 3)
	t.Logf("loaded, second quarter: %v\nloaded, last quarter:   %v", second, last)
	checkLoaded(t, samples)
	checkFlat(t, "goroutines under load", second.goroutines, last.goroutines, 1.2, 50)
	checkFlat(t, "goroutines at rest", resting.goroutines, rested.goroutines, 1, 20)
	checkFlat(t, "files under load", second.files, last.files, 1.2, 20)
	checkFlat(t, "files at rest", resting.files, rested.files, 1, 20)
	checkFlat(t, "memory", second.memory, last.memory, 1.2, buffers)
	checkFlat(t, "disk, as for each message before", second.disk*last.published/second.published, last.disk, 1.2, buffers)
}

// buffers is how much a store may take, of memory and of the disk, for what was written
// lately: it comes and goes, and tells nothing.
const buffers = 64 << 20 // bytes

// checkFlat fails the test if something has grown by more than a factor and a bit.
func checkFlat(t *testing.T, what string, before, after, factor, bit float64) {
	t.Helper()
	if after > before*factor+bit {
		t.Errorf("%s: %.0f before, %.0f after", what, before, after)
	}
}

// checkLoaded fails the test if the load was gone by the end: where nothing is published,
// nothing grows, and the test would praise that.
func checkLoaded(t *testing.T, samples []usage) {
	t.Helper()
	publishedIn := func(number int) float64 {
		part := quarterOf(samples, number)
		return part[len(part)-1].published - part[0].published
	}
	second, last := publishedIn(1), publishedIn(3)
	t.Logf("published in the second quarter %.0f, in the last %.0f", second, last)
	if last == 0 || last < second/2 {
		t.Errorf("%.0f were published in the last quarter and %.0f in the second: the load did not last", last, second)
	}
}

// soak is a load, and what it was promised.
type soak struct {
	client   *client
	sink     *sink
	workflow string // URL of a workflow that ends at its first delivery

	mu           sync.Mutex
	acknowledged map[string]bool // ids of messages that must be delivered
	published    atomic.Int64    // of all kinds
	turnedAway   atomic.Int64    // requests answered 503, as they are while the disk stands still
}

// usage is what a server takes at one moment.
type usage struct{ goroutines, files, memory, disk, published float64 }

func (u usage) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f files, %.1f MiB of memory, %.1f MiB on disk, %.0f published",
		u.goroutines, u.files, u.memory/(1<<20), u.disk/(1<<20), u.published)
}

func (k *soak) sample(t *testing.T) usage {
	t.Helper()
	text := k.client.text(t, "/metrics")
	return usage{
		goroutines: metric(t, text, "go_goroutines"),
		files:      metric(t, text, "process_open_fds"),
		memory:     metric(t, text, "process_resident_memory_bytes"),
		disk:       metric(t, text, "posthaste_store_bytes"),
		published:  float64(k.published.Load()),
	}
}

// metric returns the value of a metric without labels.
func metric(t *testing.T, text, name string) float64 {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("/metrics has no %s", name)
	}
	value, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// quarterOf returns a quarter of the samples, the first being number 0.
func quarterOf(samples []usage, number int) []usage {
	from := len(samples) * number / 4
	return samples[from:max(len(samples)*(number+1)/4, from+1)]
}

// quarter returns the medians of a quarter of the samples.
func quarter(samples []usage, number int) usage {
	part := quarterOf(samples, number)
	median := func(of func(usage) float64) float64 {
		values := make([]float64, len(part))
		for i, u := range part {
			values[i] = of(u)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return usage{
		goroutines: median(func(u usage) float64 { return u.goroutines }),
		files:      median(func(u usage) float64 { return u.files }),
		memory:     median(func(u usage) float64 { return u.memory }),
		disk:       median(func(u usage) float64 { return u.disk }),
		published:  median(func(u usage) float64 { return u.published }),
	}
}

// warmUp does everything once, so that what is kept for ever is there.
func (k *soak) warmUp(t *testing.T, random *rand.Rand) {
	t.Helper()
	schedule := "/v2/schedules/" + k.sink.url + "/" + answerOK + "/scheduled"
	if err := k.client.call(t.Context(), http.MethodPost, schedule, map[string]string{"Upstash-Cron": "* * * * *"}, "tick", nil); err != nil {
		t.Fatalf("schedule: %v", err)
	}
	k.loadFor(t, random, 5*time.Second)
	k.settle(t)
}

// loadFor puts the load on and takes samples of the server.
func (k *soak) loadFor(t *testing.T, random *rand.Rand, duration time.Duration) (samples []usage) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	var working sync.WaitGroup
	work := func(pause time.Duration, do func(context.Context, *rand.Rand) error) {
		own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		working.Go(func() {
			for ctx.Err() == nil {
				switch err := do(ctx, own); {
				case err == nil || ctx.Err() != nil:
				case isBusy(err):
					k.turnedAway.Add(1)
				default:
					t.Errorf("under load: %v", err)
					stop() // what is left of the load would tell little
				}
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
	for range 8 {
		work(*soakPause, k.publish)
	}
	work(100*time.Millisecond, k.enqueue) // no more than a queue can follow, which has one attempt at a time
	work(100*time.Millisecond, k.trigger)
	work(200*time.Millisecond, k.readLog)
	work(time.Second, k.emptyDLQ)
	for range 4 {
		work(0, k.follow)
	}
	ticks := time.NewTicker(max(duration/80, 50*time.Millisecond))
	defer ticks.Stop()
	for ctx.Err() == nil {
		samples = append(samples, k.sample(t))
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
	working.Wait()
	return samples
}

// publish publishes a message of a random kind.
func (k *soak) publish(ctx context.Context, random *rand.Rand) error {
	header := map[string]string{}
	switch random.IntN(5) {
	case 0:
		header["Upstash-Delay"] = "1s"
	case 1:
		header["Upstash-Flow-Control-Key"] = "narrow"
		header["Upstash-Flow-Control-Value"] = "parallelism=4"
	}
	return k.send(ctx, random, "/v2/publish/", header)
}

// enqueue puts a message in a queue.
func (k *soak) enqueue(ctx context.Context, random *rand.Rand) error {
	return k.send(ctx, random, "/v2/enqueue/line/", map[string]string{})
}

// send sends a message, by a route, to a destination that answers at random.
func (k *soak) send(ctx context.Context, random *rand.Rand, route string, header map[string]string) error {
	answer := pick(random, []string{answerOK, answerOK, answerLate, answerFlaky, answerRejected})
	header["Upstash-Retry-Delay"] = "50"
	header["Upstash-Label"] = pick(random, []string{"red", "green", "blue"})
	var taken receipt
	url, body := k.sink.url+"/"+answer+"/soak", strings.Repeat("x", random.IntN(2000))
	if err := k.client.call(ctx, http.MethodPost, route+url, header, body, &taken); err != nil {
		return err
	}
	k.published.Add(1)
	if answer != answerRejected {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.acknowledged[taken.MessageID] = true
	}
	return nil
}

func (k *soak) trigger(ctx context.Context, _ *rand.Rand) error {
	k.published.Add(1)
	return k.client.call(ctx, http.MethodPost, "/v2/trigger/"+k.workflow, nil, `{"soak":true}`, nil)
}

func (k *soak) readLog(ctx context.Context, random *rand.Rand) error {
	query := pick(random, []url.Values{{}, {"label": {"red"}}, {"state": {"FAILED"}}, {"label": {"blue"}, "state": {"DELIVERED"}}})
	_, err := k.client.logs(ctx, query)
	return err
}

// emptyDLQ deletes what has failed.
func (k *soak) emptyDLQ(ctx context.Context, _ *rand.Rand) error {
	return k.client.call(ctx, http.MethodDelete, "/v2/dlq?count=100", nil, "", nil)
}

// follow follows the log for a while.
func (k *soak) follow(ctx context.Context, random *rand.Rand) error {
	ctx, stop := context.WithTimeout(ctx, time.Second+time.Duration(random.Int64N(int64(5*time.Second))))
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.client.base+"/v2/logs", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+k.client.token)
	request.Header.Set("Accept", "text/event-stream")
	response, err := k.client.http.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	if ctx.Err() != nil {
		return nil // it was long enough
	}
	return err
}

// settle waits until everything acknowledged was delivered and connections had the time
// to be idle.
func (k *soak) settle(t *testing.T) {
	t.Helper()
	if err := eventually(t, func() error {
		if missing := k.missing(); len(missing) > 0 {
			return fmt.Errorf("%d acknowledged messages are not delivered", len(missing))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	k.client.http.CloseIdleConnections()
	const rest = 10 * time.Second // the server keeps unused connections to destinations for 4 s
	time.Sleep(rest)
}

func (k *soak) missing() (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sink.mu.Lock()
	defer k.sink.mu.Unlock()
	for id := range k.acknowledged {
		if !k.sink.delivered[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

func (k *soak) checkDelivered(t *testing.T) {
	t.Helper()
	if missing := k.missing(); len(missing) > 0 {
		t.Errorf("%d acknowledged messages were never delivered, the first is %s", len(missing), missing[0])
		return
	}
	t.Logf("%d published, %d of them had to be delivered, none is missing", k.published.Load(), len(k.acknowledged))
}

// newQuickWorkflow starts the endpoint of a workflow that has nothing to do.
func newQuickWorkflow(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	return server.URL + "/workflow"
}
