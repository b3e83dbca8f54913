package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

func TestKubernetesWaitsUntilTheShopHasEnded(t *testing.T) {
	manifest, err := os.ReadFile("kubernetes.yaml")
	must(t, err)
	seconds := func(pattern string) time.Duration {
		found := regexp.MustCompile(pattern).FindSubmatch(manifest)
		if found == nil {
			t.Fatalf("kubernetes.yaml has no %s", pattern)
		}
		n, err := strconv.Atoi(string(found[1]))
		must(t, err)
		return time.Duration(n) * time.Second
	}
	const handOver, cut = time.Second, 2 * time.Second // of Runner.Stop, beside the grace
	needs := seconds(`preStop: {sleep: {seconds: (\d+)`) + handOver + jobsGrace + cut + requestsGrace
	if has := seconds(`terminationGracePeriodSeconds: (\d+)`); has <= needs {
		t.Errorf("it waits for %v, and the shop takes up to %v", has, needs)
	}
}
