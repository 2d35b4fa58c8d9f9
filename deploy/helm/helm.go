// Package helm is the environment in which tests run helm.
package helm

// Env returns the variables that have helm keep its own things in the folder, and not in
// those of whoever runs the tests.
func Env(folder string) []string {
	return []string{"HELM_CACHE_HOME=" + folder, "HELM_CONFIG_HOME=" + folder, "HELM_DATA_HOME=" + folder}
}
