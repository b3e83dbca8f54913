// Package deploy checks the files that say how pqueue is built, released and deployed, each by the library of the tool that reads it.
package deploy

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const (
	root  = "../.."
	chart = root + "/cmd/pqueue/deploy/helm"
)

// objects are those of a manifest, one of each kind.
type objects struct {
	config     *corev1.ConfigMap
	deployment *appsv1.Deployment
	service    *corev1.Service
	account    *corev1.ServiceAccount
	budget     *policyv1.PodDisruptionBudget
	scaler     *autoscalingv2.HorizontalPodAutoscaler
}

// add reads an object as Kubernetes' own types have it, and refuses fields that these do not have.
func (o *objects) add(t *testing.T, document string) {
	t.Helper()
	var kind struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	into := map[string]any{
		"v1 ConfigMap": &o.config, "apps/v1 Deployment": &o.deployment, "v1 Service": &o.service, "v1 ServiceAccount": &o.account,
		"policy/v1 PodDisruptionBudget": &o.budget, "autoscaling/v2 HorizontalPodAutoscaler": &o.scaler,
	}[kind.APIVersion+" "+kind.Kind]
	if into == nil {
		t.Fatalf("no such kind is expected: %+v", kind)
	}
	if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
		t.Errorf("%s: %v\n%s", kind.Kind, err, document)
	}
}

// render is helm template.
func render(t *testing.T, release string, values map[string]any) (map[string]string, error) {
	t.Helper()
	c, err := loader.LoadDir(chart)
	if err != nil {
		t.Fatal(err)
	}
	options := common.ReleaseOptions{Name: release, Namespace: "shop", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(c, all)
}

func rendered(t *testing.T, release string, values map[string]any) (o objects) {
	t.Helper()
	files, err := render(t, release, values)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) == ".yaml" && strings.TrimSpace(files[name]) != "" {
			o.add(t, files[name])
		}
	}
	return o
}

var least = map[string]any{"existingSecret": "keys"}

func TestTheChartIsWhatHelmAndKubernetesTake(t *testing.T) {
	for _, m := range lint.RunAll(chart, least, "shop").Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
	o := rendered(t, "jobs", least)
	pod, name := o.deployment.Spec.Template, "jobs-pqueue"
	for what, got := range map[string]string{
		"the Deployment": o.deployment.Name, "the Service": o.service.Name, "the ServiceAccount": o.account.Name, "the PodDisruptionBudget": o.budget.Name,
		"the ConfigMap that is mounted": pod.Spec.Volumes[0].ConfigMap.Name, "the ConfigMap": o.config.Name,
		"the account of the pods": pod.Spec.ServiceAccountName,
	} {
		if got != name {
			t.Errorf("%s is %q, want %q", what, got, name)
		}
	}
	for what, selector := range map[string]map[string]string{
		"the Deployment": o.deployment.Spec.Selector.MatchLabels, "the Service": o.service.Spec.Selector,
		"the PodDisruptionBudget": o.budget.Spec.Selector.MatchLabels,
	} {
		for key, value := range selector {
			if pod.Labels[key] != value {
				t.Errorf("%s selects %s=%s, and pods have %q", what, key, value, pod.Labels[key])
			}
		}
		if len(selector) != 2 {
			t.Errorf("%s selects by %v", what, selector)
		}
	}
	if o.scaler != nil || *o.deployment.Spec.Replicas != 2 {
		t.Error("want two pods that nothing scales")
	}
	if pod.Spec.Volumes[1].Secret.SecretName != "keys" || *pod.Spec.Volumes[1].Secret.DefaultMode != 0o440 {
		t.Errorf("the secrets are %+v", pod.Spec.Volumes[1].Secret)
	}
	if *pod.Spec.AutomountServiceAccountToken || *o.account.AutomountServiceAccountToken || !*pod.Spec.SecurityContext.RunAsNonRoot {
		t.Error("a pod has rights that it does not need")
	}
}

func TestTheChartsPodIsAskedWhereTheProgramAnswers(t *testing.T) {
	o := rendered(t, "pqueue", map[string]any{"existingSecret": "keys", "config": map[string]any{"listen": "0.0.0.0:8088"}})
	c := o.deployment.Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	if ports["http"] != 8088 || ports["metrics"] != 9090 || o.service.Spec.Ports[0].TargetPort.String() != "http" {
		t.Errorf("ports are %v", ports)
	}
	for path, probe := range map[string]*corev1.Probe{"/readyz": c.ReadinessProbe, "/livez": c.LivenessProbe} {
		if probe == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "http" {
			t.Errorf("want a probe of %s, got %+v", path, probe)
		}
	}
	if o.deployment.Name != "pqueue" {
		t.Errorf("release pqueue is called %s", o.deployment.Name)
	}
	if want := "ghcr.io/create-info/pqueue:" + versionOfTheChart(t); c.Image != want {
		t.Errorf("the image is %s, want %s", c.Image, want)
	}
	settings := filepath.Join(t.TempDir(), "pqueue.yaml")
	secrets := t.TempDir()
	for name, text := range map[string]string{
		"dsn": "sqlite://jobs.db", "console-password": "a long enough s3cret", "signing": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw6ZC1kvFfWHo=",
	} {
		writeFile(t, filepath.Join(secrets, name), text)
	}
	writeFile(t, settings, strings.ReplaceAll(o.config.Data["pqueue.yaml"], "/run/secrets", secrets))
	said, err := exec.CommandContext(t.Context(), "go", "-C", root, "run", "./cmd/pqueue", "check-config", "--config", settings).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "0.0.0.0:8088") {
		t.Errorf("pqueue check-config, of what the chart mounts: %v\n%s", err, said)
	}
}

func TestTheChartScalesByLateness(t *testing.T) {
	o := rendered(t, "jobs", map[string]any{"existingSecret": "keys", "autoscaling": map[string]any{
		"enabled": true, "maxReplicas": 9, "selector": map[string]any{"tables": "shop_"},
	}})
	if o.deployment.Spec.Replicas != nil {
		t.Error("the Deployment sets the number of pods that the autoscaler sets")
	}
	spec, metric := o.scaler.Spec, o.scaler.Spec.Metrics[0].External
	if spec.ScaleTargetRef.Name != o.deployment.Name || *spec.MinReplicas != 2 || spec.MaxReplicas != 9 {
		t.Errorf("it scales %+v", spec)
	}
	name, tables, target := metric.Metric.Name, metric.Metric.Selector.MatchLabels["tables"], metric.Target.Value.String()
	if name != "persistent_queue_overdue_seconds_max" || tables != "shop_" || target != "10" {
		t.Errorf("it scales by %+v", metric)
	}
}

func TestTheChartRefusesValuesThatItDoesNotHave(t *testing.T) {
	for says, values := range map[string]map[string]any{
		"existingSecret: name a Secret": {},
		"replica":                       {"existingSecret": "keys", "replica": 3},
		"terminationGracePeriodSeconds": {"existingSecret": "keys", "terminationGracePeriodSeconds": 10},
	} {
		if _, err := render(t, "jobs", values); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: want it refused because of %s, got: %v", values, says, err)
		}
	}
}

// The manifest is for those who have no Helm.
func TestTheManifestIsWhatKubernetesTakes(t *testing.T) {
	var o objects
	for document := range strings.SplitSeq(readFile(t, root+"/cmd/pqueue/deploy/kubernetes.yaml"), "\n---\n") {
		o.add(t, document)
	}
	shop := objects{}
	for document := range strings.SplitSeq(readFile(t, root+"/examples/shop/kubernetes.yaml"), "\n---\n") {
		shop.add(t, document)
	}
	if o.config == nil || o.deployment == nil || o.service == nil || shop.deployment == nil {
		t.Error("an object is missing")
	}
}

func versionOfTheChart(t *testing.T) string {
	t.Helper()
	c, err := loader.LoadDir(chart)
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.AppVersion != "v"+c.Metadata.Version {
		t.Errorf("the chart %s has the program %s", c.Metadata.Version, c.Metadata.AppVersion)
	}
	return c.Metadata.AppVersion
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func there(t *testing.T, name string) bool {
	t.Helper()
	_, err := os.Stat(name)
	return err == nil
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
