package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metrics of the server that scenarios read.
const (
	metricWritten     = "posthaste_store_written_bytes_total"
	metricIndexBlocks = "posthaste_log_index_blocks_read_total"
	metricEntriesRead = "posthaste_log_entries_read_total"
	metricReturned    = "posthaste_log_entries_returned_total"
	metricCollections = "go_gc_duration_seconds_count"
	metricAllocated   = "go_memstats_alloc_bytes_total"
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
