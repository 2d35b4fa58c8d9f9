package kube

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

//go:embed folders.yaml
var foldersYAML string

// Documented returns the section of docs/kubernetes.md.
func (c *Cluster) Documented(section string) (string, error) {
	return page.ReadSection(c.Path("docs", "kubernetes.md"), section)
}

// RemoveFolders removes Scriptorium's folders from every node, in the way that
// docs/kubernetes.md has for it, and returns what its commands printed.
func (c *Cluster) RemoveFolders(ctx context.Context, images Images) (said string, err error) {
	section, err := c.Documented("Uninstall")
	if err != nil {
		return "", err
	}
	manifest, err := page.Find(page.Blocks(section, "yaml"), "name: scriptorium-remove\n")
	if err != nil {
		return "", err
	}
	commands, err := page.Find(page.Indented(section), "daemonset/scriptorium-remove")
	if err != nil {
		return "", err
	}
	c.say("applying what docs/kubernetes.md has to remove the folders on the nodes")
	defer func() { err = errors.Join(err, c.removeFromNodes(ctx, "scriptorium-remove")) }()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := c.Apply(ctx, images.rewrite(manifest)); err != nil {
		return "", err
	}
	said, err = c.Shell(ctx, commands)
	return "$ " + commands + said, err
}

// Folders returns which folders of Scriptorium there are on each node, by the node's name.
func (c *Cluster) Folders(ctx context.Context, images Images) (_ map[string][]string, err error) {
	defer func() { err = errors.Join(err, c.removeFromNodes(ctx, "scriptorium-look")) }()
	if err := c.Apply(ctx, images.rewrite(foldersYAML)); err != nil {
		return nil, err
	}
	if _, err := c.Kubectl(ctx, "", "-n", "kube-system", "rollout", "status", "--timeout=120s", "daemonset/scriptorium-look"); err != nil {
		return nil, err
	}
	pods, err := c.Client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app=scriptorium-look"})
	if err != nil {
		return nil, err
	}
	folders := map[string][]string{}
	for _, pod := range pods.Items {
		log, err := c.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "look"}).DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("log of %s on %s: %w", pod.Name, pod.Spec.NodeName, err)
		}
		folders[pod.Spec.NodeName] = ours(string(log))
	}
	if len(folders) == 0 {
		return nil, errors.New("no node has a pod that looks what is on it")
	}
	return folders, nil
}

// ours returns the folders of Scriptorium that a listing of folders below /node has.
func ours(listing string) []string {
	var in string
	found := []string{}
	for line := range strings.Lines(listing) {
		line = strings.TrimSpace(line)
		if folder, is := strings.CutSuffix(line, ":"); is && strings.HasPrefix(folder, "/node/") {
			in = strings.TrimPrefix(folder, "/node")
		} else if strings.HasPrefix(line, "scriptorium") {
			found = append(found, in+"/"+line)
		}
	}
	return found
}

// removeFromNodes removes a DaemonSet of kube-system, if it is there, and waits until its pods
// are gone, also after ctx is done.
func (c *Cluster) removeFromNodes(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if _, err := c.Kubectl(ctx, "", "-n", "kube-system", "delete", "--ignore-not-found", "daemonset/"+name); err != nil {
		return err
	}
	return Until(ctx, func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods of %s are still there", len(pods.Items), name)
		}
		return err
	})
}
