package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Metrics of the server that scenarios read.
const (
	metricWritten     = "posthaste_store_written_bytes_total"
	metricReturned    = "posthaste_log_entries_returned_total"
	metricCollections = "go_gc_duration_seconds_count"
	metricAllocated   = "go_memstats_alloc_bytes_total"
	metricAttempts    = "posthaste_attempt_seconds_count"
)

// scrape returns the metrics of a running server that have no labels, by name. A
// program that has no metrics, as the relay, has none of them.
func scrape(ctx context.Context, c *child) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.host+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics were answered %s", response.Status)
	}
	return parseMetrics(response.Body)
}

// attempts returns how many attempts to deliver have a result that is stored.
func (c *child) attempts(ctx context.Context) (int, error) {
	numbers, err := scrape(ctx, c)
	return int(numbers[metricAttempts]), err
}

const attemptsPause = 5 * time.Millisecond // between two looks

// awaitAttempts waits until a number of attempts have a result. It gives up when there is no
// further one for as long as patience.
func (c *child) awaitAttempts(ctx context.Context, want int) error {
	last, since := -1, time.Now()
	for {
		n, err := c.attempts(ctx)
		if err != nil || n >= want {
			return err
		}
		if n > last {
			last, since = n, time.Now()
		} else if time.Since(since) > patience {
			return fmt.Errorf("%d attempts to deliver have a result, %d were expected", n, want)
		}
		select {
		case <-time.After(attemptsPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// parseMetrics reads lines of a name and a value.
func parseMetrics(text io.Reader) (map[string]float64, error) {
	values := map[string]float64{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), " ")
		if !found || strings.HasPrefix(name, "#") || strings.Contains(name, "{") {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		values[name] = number
	}
	return values, lines.Err()
}
