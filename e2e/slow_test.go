package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	neturl "net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var slowClients = flag.Int("slow-clients", 200, "how many clients are slow in the test of slow clients")

// TestSlowClients has many clients of one habit, many more than there may be connections:
// they connect and say nothing, or say their headers or their bodies byte by byte, or
// never read what they are answered. One that is not slow is served all the while, each
// time over a new connection. For a long run, with a file of this process for each client,
// and of the server for every other one:
//
//	go test -run TestSlowClients ./e2e -slow-clients=10000
func TestSlowClients(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	const post = "POST %s HTTP/1.1\r\nHost: h\r\n%sUpstash-Delay: 1h\r\nContent-Length: 100000\r\n\r\n"
	authorization := "Authorization: Bearer " + base64.StdEncoding.EncodeToString([]byte(`{"UserID":"slow","Password":"slow"}`)) + "\r\n"
	habits := map[string]string{
		"say nothing":                      "",
		"go on with their headers":         "GET /v2/queues HTTP/1.1\r\nHost: h\r\nX: ",
		"go on with a body":                fmt.Sprintf(post, "/v2/publish/http://localhost/", authorization),
		"go on with a body, without token": fmt.Sprintf(post, "/v2/publish/http://localhost/", ""),
		"go on with the body of a webhook": fmt.Sprintf(post, "/v2/workflows/hooks/nobody/none/none", ""),
		"read nothing":                     strings.Repeat("GET /openapi.yaml HTTP/1.1\r\nHost: h\r\n\r\n", 20),
	}
	for habit, words := range habits {
		t.Run(habit, func(t *testing.T) { serveBeside(t, words) })
	}
}

// serveBeside has one client served beside many that say the words and are slow then.
func serveBeside(t *testing.T, words string) {
	most := max(50, *slowClients/2)
	_, c := startServe(t, t.TempDir(), "--users", "slow:slow", "--max-connections", strconv.Itoa(most), "--memory-limit", "1GiB")
	destination := newSink(t)
	ctx, stop := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	var connected atomic.Int64
	for range *slowClients {
		crowd.Go(func() {
			if err := dawdle(ctx, strings.TrimPrefix(c.base, "http://"), words, &connected); err != nil && ctx.Err() == nil {
				t.Errorf("a slow client: %v", err)
			}
		})
	}
	defer crowd.Wait()
	defer stop()
	awaitCrowd(t, &connected)

	quick := &client{base: c.base, token: c.token, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	const messages = 20
	for i := range messages {
		if err := quick.publishOnce(t.Context(), destination.url+"/ok", strconv.Itoa(i)); err != nil {
			t.Fatalf("the client that is not slow: %v", err)
		}
	}
	metrics := metricsOf(t, c.base)
	t.Logf("%d slow clients, %.0f connections of %d, %.0f MB resident", *slowClients,
		metrics["posthaste_connections"], most, metrics["process_resident_memory_bytes"]/1e6)
	if open := metrics["posthaste_connections"]; open > float64(most) {
		t.Errorf("%.0f connections, of %d that there may be", open, most)
	}
	(&meter{sink: destination}).waitForDeliveries(t, messages)
}

// awaitCrowd waits until all slow clients have connected, as long as more and more have.
func awaitCrowd(t *testing.T, connected *atomic.Int64) {
	t.Helper()
	for count := connected.Load(); count < int64(*slowClients); count = connected.Load() {
		await(t, fmt.Sprintf("%d slow clients of %d have connected, and another one", count, *slowClients),
			func() bool { return connected.Load() > count })
	}
}

// publishOnce publishes under a deduplication id, and again, as a client should, if the
// connection is lost: where there are too many, any may be the one that goes.
func (c *client) publishOnce(ctx context.Context, url, id string) error {
	header := map[string]string{"Upstash-Deduplication-Id": id}
	return untilServed(ctx, func() error {
		_, err := c.publish(ctx, url, header, "hi")
		return err
	})
}

// untilServed asks again while the connection is lost, or the server answers 503, as it
// does while the disk of a busy machine stands still.
func untilServed(ctx context.Context, ask func() error) error {
	const pause = 100 * time.Millisecond
	for began := time.Now(); ; time.Sleep(pause) {
		err := ask()
		if err == nil || !mayBeAskedAgain(err) || time.Since(began) > patience || ctx.Err() != nil {
			return err
		}
	}
}

func mayBeAskedAgain(err error) bool {
	_, lost := errors.AsType[*neturl.Error](err)
	return lost || isBusy(err)
}

// isBusy reports whether an error is an answer 503.
func isBusy(err error) bool {
	answer, answered := errors.AsType[*statusError](err)
	return answered && answer.status == http.StatusServiceUnavailable
}

// dawdlePause is how long a slow client waits before it goes on. Many wait for longer: to
// be written to by ten thousand every moment is another test.
func dawdlePause() time.Duration {
	return max(50*time.Millisecond, time.Duration(*slowClients)*50*time.Microsecond)
}

// dawdle connects, says something, and goes on byte by byte; where the server ends that,
// it begins anew. It is counted when it has connected.
func dawdle(ctx context.Context, host, words string, connected *atomic.Int64) error {
	pause := dawdlePause()
	for begun := false; ctx.Err() == nil; {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
		if err != nil {
			return err
		}
		if !begun {
			connected.Add(1)
			begun = true
		}
		unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
		_, err = io.WriteString(conn, words)
		for err == nil && ctx.Err() == nil {
			time.Sleep(pause)
			if words != "" {
				_, err = io.WriteString(conn, "x")
			} else {
				_, err = conn.Read(make([]byte, 1)) // until the server has enough
			}
		}
		unhook()
		_ = conn.Close()
		time.Sleep(pause)
	}
	return nil
}

var metricLine = regexp.MustCompile(`(?m)^(\w+) (\S+)$`)

// metricsOf returns the metrics of a server that have no labels.
func metricsOf(t *testing.T, base string) map[string]float64 {
	t.Helper()
	var response *http.Response
	err := untilServed(t.Context(), func() (err error) {
		response, err = http.Get(base + "/metrics")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	metrics := make(map[string]float64)
	for _, match := range metricLine.FindAllStringSubmatch(string(text), -1) {
		if metrics[match[1]], err = strconv.ParseFloat(match[2], 64); err != nil {
			t.Fatal(err)
		}
	}
	return metrics
}
