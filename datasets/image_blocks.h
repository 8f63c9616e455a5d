#ifndef EMPLACE_DATASETS_IMAGE_BLOCKS_H_
#define EMPLACE_DATASETS_IMAGE_BLOCKS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "datasets/builder.h"
#include "datasets/layers.h"
#include "sim/base/options.h"

// Parts shared by image classifiers.
namespace emplace::datasets {

struct ImageOptions {
  std::int64_t batch = 32;
  std::int64_t image_size = 224;  // height and width, pixels
  std::int64_t classes = 1000;
};
// Declares batch, image_size (from `smallest_image` on) and classes.
void ReadImageOptions(OptionReader& reader, ImageOptions* options, std::int64_t smallest_image);

struct ImageInputs {
  Value images;  // [batch, 3, image_size, image_size]
  Value labels;  // [batch] class numbers, or [batch, classes] where labels are smoothed
};
ImageInputs AddImageInputs(NetworkBuilder& net, const ImageOptions& options, bool smoothed_labels);

struct Conv {
  std::int64_t filters = 0;
  std::array<std::int64_t, 2> kernel = {1, 1};
  Sliding sliding = {};
};

inline constexpr Sliding kSame = {};
inline constexpr Sliding kValid = {.stride = {1, 1}, .same = false, .dilation = {1, 1}};
// Stride 2 in both directions, padded to half the size, rounded up.
inline constexpr Sliding kHalveSame = {.stride = {2, 2}, .same = true, .dilation = {1, 1}};

// In a scope `name`: convolution without bias, batch normalisation.
Value ConvBatchNorm(NetworkBuilder& net, std::string_view name, Value x, const Conv& conv,
                    const BatchNormOptions& options = {});
// In a scope `name`: relu, then ConvBatchNorm.
Value ReluConvBatchNorm(NetworkBuilder& net, std::string_view name, Value x, const Conv& conv,
                        const BatchNormOptions& options = {});
// In a scope `name`, as often as `times`: relu, one filter for each channel (`kernel`, stride in the first round only),
// a 1x1 convolution to `filters`, batch normalisation.
// Source: Chollet 2017, "Xception"; twice, as in Zoph et al. 2018, appendix A.4.
Value SeparableConv(NetworkBuilder& net, std::string_view name, Value x, const Conv& conv, int times,
                    const BatchNormOptions& options = {});
// In a scope `name`: relu, every second pixel and the same one pixel further, each through a 1x1 convolution to half of
// `filters`, joined, batch normalisation. Source: Zoph et al. 2018, its authors' published model.
Value FactorizedReduction(NetworkBuilder& net, std::string_view name, Value x, std::int64_t filters,
                          const BatchNormOptions& options = {});

// Mean over the image, `dropout`, a linear classifier; the loss of each image.
Value ClassifierLoss(NetworkBuilder& net, Value x, Value labels, std::int64_t classes, bool dropout);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMAGE_BLOCKS_H_
